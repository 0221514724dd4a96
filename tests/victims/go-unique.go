// What a Go runtime takes from the kernel at its start must never come twice: its generators, its
// hash seeds, and from them the order of a map.
package main

import (
	"crypto/rand"
	"fmt"
	"hash/maphash"
	mathrand "math/rand/v2"
	"os"
)

var (
	used int
	seed = maphash.MakeSeed()
)

func check() {
	if used++; used != 1 {
		fmt.Fprintln(os.Stderr, "victim go-unique: it has been used before")
		os.Exit(1)
	}
	secret := make([]byte, 16)
	rand.Read(secret)
	order := uint64(14695981039346656037)
	table := map[int]bool{}
	for i := range 64 {
		table[i] = true
	}
	for key := range table {
		order = (order ^ uint64(key)) * 1099511628211
	}
	fmt.Printf("%x %x %x %x\n", secret, mathrand.Uint64(), maphash.String(seed, "text"), order)
}

func main() {
	check()
	if os.Getenv("VICTIM_PRETEND_STALE") != "" {
		check()
	}
}
