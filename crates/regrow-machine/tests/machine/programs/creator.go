// Starts a program a number of times, at one place.
package main

import (
	"os"
	"os/exec"
	"strconv"
)

//go:noinline
func start() error {
	return exec.Command("/bin/true").Run()
}

//go:noinline
func middle() error {
	err := start()
	if err != nil {
		return err
	}
	return nil
}

func main() {
	count, err := strconv.Atoi(os.Args[1])
	if err != nil {
		os.Exit(2)
	}
	for i := 0; i < count; i++ {
		if middle() != nil {
			os.Exit(1)
		}
	}
}
