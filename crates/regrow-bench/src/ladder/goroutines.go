// Two goroutines that give way to one another on one processor: prints nanoseconds for each switch.
package main

import (
	"fmt"
	"runtime"
	"time"
)

const count = 2000000

func main() {
	runtime.GOMAXPROCS(1)
	done := make(chan bool)
	go func() {
		for i := 0; i < count; i++ {
			runtime.Gosched()
		}
		done <- true
	}()
	begun := time.Now()
	for i := 0; i < count; i++ {
		runtime.Gosched()
	}
	taken := time.Since(begun)
	<-done
	fmt.Printf("%.2f\n", float64(taken.Nanoseconds())/(2*count))
}
