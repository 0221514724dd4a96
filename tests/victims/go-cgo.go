// A dynamic Go program with C in it: the C library's start comes before the Go runtime's, which the
// C side's threads then call.
package main

/*
#include <pthread.h>
#include <stdlib.h>

static int constructed, calls;
static __thread int per_thread = 5;
__attribute__((constructor)) static void construct(void) { constructed++; }
static int state(void) { calls++; return constructed * 100 + calls * 10 + per_thread++; }
static void *run(void *count) { ++*(int *)count; return count; }
static int threads(void)
{
    int count = 0;
    pthread_t thread;
    for (int i = 0; i < 4; i++)
        if (pthread_create(&thread, 0, run, &count) == 0)
            pthread_join(thread, 0);
    return count;
}
static char *leak(void) { return malloc(100000); }
*/
import "C"

import (
	"fmt"
	"os"
	"runtime"
)

var globals = map[string]string{"a": "fresh"}

func fail(format string, values ...any) {
	fmt.Fprintf(os.Stderr, "victim go-cgo: "+format+"\n", values...)
	os.Exit(1)
}

func check() {
	runtime.LockOSThread()
	if state := C.state(); state != 115 {
		fail("the C side's state is %d, not 115", state)
	}
	if globals["a"] != "fresh" {
		fail("a Go map holds %q", globals["a"])
	}
	if started := C.threads(); started != 4 {
		fail("%d threads of 4 ran", started)
	}
}

func main() {
	check()
	globals["a"] = "stale"
	C.state()
	C.leak()
	go func() {
		for {
			C.state()
		}
	}()
	if os.Getenv("VICTIM_PRETEND_STALE") != "" {
		check()
	}
}
