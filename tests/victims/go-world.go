// A Go program: arguments, environment, globals, goroutines, collector and timers are fresh. The run
// ends with goroutines still busy; the argument `exit` ends it by os.Exit(4), `panic` by a panic.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

var (
	number  = 42
	table   = map[string]int{"one": 1, "two": 2}
	zero    [1 << 16]uint64
	words   = []string{"alpha", "beta"}
	kept    [][]byte
	counter atomic.Int64
	loose   atomic.Bool // the busy goroutines leave the processor only when they are made to
	once    sync.Once
	made    int
)

func init() { made++ }

func fail(format string, values ...any) {
	fmt.Fprintf(os.Stderr, "victim go-world: "+format+"\n", values...)
	os.Exit(1)
}

func require(good bool, format string, values ...any) {
	if !good {
		fail(format, values...)
	}
}

func checkGiven() {
	line, err := os.ReadFile("/proc/self/cmdline")
	require(err == nil, "%v", err)
	require(string(line) == strings.Join(os.Args, "\x00")+"\x00", "the arguments are %q, the kernel's %q", os.Args, line)
	environment, err := os.ReadFile("/proc/self/environ")
	require(err == nil, "%v", err)
	require(string(environment) == strings.Join(os.Environ(), "\x00")+"\x00", "the environment is not the kernel's")
	require(os.Getenv("VICTIM_LEFT") == "", "VICTIM_LEFT is set")
	directory, err := os.Getwd()
	require(err == nil, "%v", err)
	if want := os.Getenv("EXPECT_CWD"); want != "" {
		require(directory == want, "the directory is %s, not %s", directory, want)
	}
	require(fmt.Sprint(os.Getpid()) == readLink("/proc/self"), "the pid is %d", os.Getpid())
}

func readLink(path string) string {
	target, err := os.Readlink(path)
	require(err == nil, "%v", err)
	return target
}

func check() {
	checkGiven()
	require(number == 42 && made == 1, "a global is %d, init has run %d times", number, made)
	require(len(table) == 2 && table["one"] == 1, "the map is %v", table)
	require(words[0] == "alpha" && len(words) == 2, "the slice is %v", words)
	require(kept == nil && counter.Load() == 0 && !loose.Load(), "%d blocks are kept, %d ticks", len(kept), counter.Load())
	for i, value := range zero {
		if value != 0 {
			fail("word %d of the zero data is %#x", i, value)
		}
	}
	once.Do(func() { number++ })
	require(number == 43, "a once function has run before")
	require(runtime.NumGoroutine() == 1, "%d goroutines run", runtime.NumGoroutine())
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	require(memory.NumGC == 0 && memory.Mallocs < 20000, "%d collections, %d blocks made", memory.NumGC, memory.Mallocs)
	answers := make(chan int)
	for i := range 20 {
		go func() { answers <- i }()
	}
	sum := 0
	for range 20 {
		sum += <-answers
	}
	require(sum == 190, "goroutines sum up to %d", sum)
	select {
	case <-time.After(time.Millisecond):
	case <-answers:
		fail("a channel gives what nobody sent")
	}
	runtime.GC()
}

func dirty() {
	number, words[0] = 7, "stale"
	table["stale"] = 1
	os.Setenv("VICTIM_LEFT", "stale")
	for i := range zero {
		zero[i] = 0xdead
	}
	for range 40 {
		kept = append(kept, make([]byte, 1<<20))
	}
	signal.Notify(make(chan os.Signal, 1), syscall.SIGUSR1, syscall.SIGTERM)
	debug.SetGCPercent(20)
	for range 8 {
		go func() {
			for {
				counter.Add(1)
				_ = fmt.Sprint(counter.Load())
				if !loose.Load() {
					runtime.Gosched()
				}
			}
		}()
		go func() { <-make(chan int) }()
	}
	go func() {
		runtime.LockOSThread()
		time.Sleep(time.Hour)
	}()
	for counter.Load() < 100 {
		runtime.Gosched()
	}
	loose.Store(true)
	os.Chdir("/")
}

func main() {
	check()
	dirty()
	if os.Getenv("VICTIM_PRETEND_STALE") != "" {
		check()
		os.Exit(0)
	}
	switch {
	case len(os.Args) > 1 && os.Args[1] == "exit":
		os.Exit(4)
	case len(os.Args) > 1 && os.Args[1] == "panic":
		panic("nobody recovers this")
	}
}
