/* Uses the C interface as a program does, and ends with 0 where all of it does what the header says.
 * With an argument it frees a block twice, by the function that aborts. */

#include "regrow_memory.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CHECK(what)                                                                                                    \
    do {                                                                                                               \
        if (!(what)) {                                                                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what);                                                 \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

static RegrowMemoryClient *client;

static bool is_filled(const unsigned char *bytes, size_t count, unsigned char with) {
    for (size_t at = 0; at < count; at++) {
        if (bytes[at] != with) {
            return false;
        }
    }
    return true;
}

/* Blocks of its own, and at the end one that its caller frees. */
static void *thread(void *number) {
    unsigned char with = (unsigned char)(size_t)number;
    void *block = NULL;
    for (int time = 0; time < 5000; time++) {
        size_t bytes = (size_t)(time % 9 + 1) * 3000;
        CHECK(regrow_memory_alloc_zeroed(client, bytes, time % 2, &block) == REGROW_MEMORY_STATUS_OK);
        CHECK(is_filled(block, bytes, 0));
        memset(block, with, bytes);
        CHECK(is_filled(block, bytes, with));
        CHECK(regrow_memory_free(client, block) == REGROW_MEMORY_STATUS_OK);
    }
    CHECK(regrow_memory_alloc(client, 1, REGROW_MEMORY_MODE_IMMEDIATE, &block) == REGROW_MEMORY_STATUS_OK);
    memset(block, with, 4096);
    return block;
}

static void misuse(void) {
    void *block = NULL;
    size_t bytes = 0;
    RegrowMemoryOptions options = {.chunks = 2, .zones = 3};
    RegrowMemoryService *none = NULL;
    CHECK(regrow_memory_service_new(&options, &none) == REGROW_MEMORY_STATUS_OPTIONS && none == NULL);
    CHECK(regrow_memory_service_new(NULL, NULL) == REGROW_MEMORY_STATUS_NULL);
    CHECK(regrow_memory_client_new(NULL, &client) == REGROW_MEMORY_STATUS_NULL);
    CHECK(regrow_memory_alloc(client, SIZE_MAX, 0, &block) == REGROW_MEMORY_STATUS_TOO_LARGE && block == NULL);
    CHECK(regrow_memory_alloc(client, (size_t)64 << 20, 0, &block) == REGROW_MEMORY_STATUS_NO_MEMORY);
    CHECK(regrow_memory_alloc(NULL, 1, 0, &block) == REGROW_MEMORY_STATUS_NULL);
    CHECK(regrow_memory_alloc(client, 9000, 1, &block) == REGROW_MEMORY_STATUS_OK);
    CHECK(regrow_memory_size(client, block, &bytes) == REGROW_MEMORY_STATUS_OK && bytes == 16384);
    CHECK(regrow_memory_size(client, (char *)block + 1, &bytes) == REGROW_MEMORY_STATUS_NO_BLOCK);
    CHECK(regrow_memory_contains(client, block) && !regrow_memory_contains(client, &block));
    CHECK(regrow_memory_free(client, (char *)block + 4096) == REGROW_MEMORY_STATUS_NO_BLOCK);
    CHECK(regrow_memory_free(client, &block) == REGROW_MEMORY_STATUS_OUTSIDE);
    CHECK(regrow_memory_free(client, NULL) == REGROW_MEMORY_STATUS_OK);
    CHECK(regrow_memory_free(client, block) == REGROW_MEMORY_STATUS_OK);
    CHECK(regrow_memory_free(client, block) == REGROW_MEMORY_STATUS_FREED_TWICE);
    CHECK(strcmp(regrow_memory_status_text(REGROW_MEMORY_STATUS_FREED_TWICE), "the block is free already") == 0);
}

/* How many pages of a block are there, as the kernel says. */
static size_t resident(void *block, size_t pages) {
    unsigned char there[4096];
    size_t count = 0;
    CHECK(pages <= sizeof there && mincore(block, pages * 4096, there) == 0);
    for (size_t at = 0; at < pages; at++) {
        count += there[at] & 1;
    }
    return count;
}

/* 12 MiB that were in use, and that nobody uses any more. */
static void *freed(void) {
    void *block = NULL;
    CHECK(regrow_memory_alloc(client, (size_t)12 << 20, 1, &block) == REGROW_MEMORY_STATUS_OK);
    memset(block, 1, (size_t)12 << 20);
    CHECK(regrow_memory_free(client, block) == REGROW_MEMORY_STATUS_OK && resident(block, 3072) == 3072);
    return block;
}

static void gives_back(RegrowMemoryService *service) {
    RegrowMemoryState state;
    uint64_t pages = 0;
    void *block = freed();
    CHECK(regrow_memory_service_give_back(service, &pages) == REGROW_MEMORY_STATUS_OK && pages >= 3072);
    CHECK(resident(block, 3072) == 0);
    CHECK(regrow_memory_service_state(service, &state) == REGROW_MEMORY_STATUS_OK);
    CHECK(state.idle_pages == 0 && state.given_back_pages == pages);
    block = freed();
    CHECK(regrow_memory_service_start_keeper(service) == REGROW_MEMORY_STATUS_OK);
    CHECK(regrow_memory_service_start_keeper(service) == REGROW_MEMORY_STATUS_OK);
    for (int time = 0; resident(block, 3072) > 512; time++) {
        CHECK(time < 6000);
        usleep(10000);
    }
    CHECK(regrow_memory_service_give_back(service, NULL) == REGROW_MEMORY_STATUS_OK);
    CHECK(regrow_memory_service_give_back(NULL, &pages) == REGROW_MEMORY_STATUS_NULL);
    CHECK(regrow_memory_service_start_keeper(NULL) == REGROW_MEMORY_STATUS_NULL);
}

int main(int count, char **arguments) {
    (void)arguments;
    RegrowMemoryOptions options = {.chunks = 16, .zones = 2, .grow_by = 1, .t1_ms = 20, .t2_ms = 40};
    RegrowMemoryService *service = NULL;
    CHECK(regrow_memory_service_new(&options, &service) == REGROW_MEMORY_STATUS_OK);
    CHECK(regrow_memory_client_new(service, &client) == REGROW_MEMORY_STATUS_OK);
    if (count > 1) {
        void *block = NULL;
        CHECK(regrow_memory_alloc(client, 1, 0, &block) == REGROW_MEMORY_STATUS_OK);
        regrow_memory_free_or_abort(client, block);
        regrow_memory_free_or_abort(client, block);
        return 0;
    }
    pthread_t threads[4];
    for (size_t at = 0; at < 4; at++) {
        CHECK(pthread_create(&threads[at], NULL, thread, (void *)(at + 1)) == 0);
    }
    for (size_t at = 0; at < 4; at++) {
        void *block = NULL;
        CHECK(pthread_join(threads[at], &block) == 0 && is_filled(block, 4096, (unsigned char)(at + 1)));
        regrow_memory_free_or_abort(client, block);
    }
    misuse();
    RegrowMemoryState state;
    CHECK(regrow_memory_trim(client) == REGROW_MEMORY_STATUS_OK);
    CHECK(regrow_memory_service_state(service, &state) == REGROW_MEMORY_STATUS_OK);
    CHECK(state.zones == 2 && state.own_pages > 0 && state.own_pages == state.free_pages);
    gives_back(service);
    regrow_memory_client_destroy(client);
    regrow_memory_service_destroy(service);
    puts("all of it holds");
    return 0;
}
