/* Linked into mimalloc's tests: all of their memory is a block of the memory service. The program ends with 99 where it is not. */

#include "mimalloc.h"
#include "regrow_memory.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static RegrowMemoryClient *client;
static size_t served;

static void must(bool holds, const char *what) {
    if (!holds) {
        fprintf(stderr, "arena.c: %s\n", what);
        _exit(99);
    }
}

/* Blocks of mimalloc's small, medium and large kinds are in the service's range. */
static void look(void) {
    static const size_t sizes[] = {16, 3000, 100000, 3000000};
    for (size_t at = 0; at < sizeof sizes / sizeof *sizes; at++) {
        void *own = mi_malloc(sizes[at]);
        must(own != NULL && regrow_memory_contains(client, own), "a block of mimalloc is not of the service");
        mi_free(own);
        served++;
    }
}

static void at_end(void) {
    look();
    const char *path = getenv("ARENA_COUNT");
    FILE *file = path != NULL ? fopen(path, "a") : NULL;
    must(file != NULL && fprintf(file, "%zu\n", served) > 0 && fclose(file) == 0, "the count cannot be written");
}

/* Has mimalloc take a block of a gibibyte, from the first multiple of its segments' size on. */
static void take_block(void) {
    const uintptr_t segment = (uintptr_t)64 << 20;
    size_t bytes = (size_t)1 << 30;
    void *block = NULL;
    must(regrow_memory_alloc_zeroed(client, bytes, REGROW_MEMORY_MODE_DELAYED, &block) == REGROW_MEMORY_STATUS_OK,
         "there is no block");
    uintptr_t start = ((uintptr_t)block + segment - 1) & ~(segment - 1);
    bytes -= start - (uintptr_t)block;
    must(mi_manage_os_memory((void *)start, bytes, true, false, true, -1), "mimalloc does not take the block");
}

__attribute__((constructor)) static void begin(void) {
    RegrowMemoryOptions options = {.chunks = 2048};
    RegrowMemoryService *service = NULL;
    must(regrow_memory_service_new(&options, &service) == REGROW_MEMORY_STATUS_OK, "there is no service");
    must(regrow_memory_client_new(service, &client) == REGROW_MEMORY_STATUS_OK, "there is no client");
    /* mimalloc's tests want so much at once. */
    take_block();
    take_block();
    mi_option_set(mi_option_limit_os_alloc, 1);
    look();
    must(atexit(at_end) == 0, "nothing can be done at the end");
}
