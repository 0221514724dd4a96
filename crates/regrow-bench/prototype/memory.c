/* The prototype's snapshot: which mappings there are, and what stands in the private pages that have been written.
 *
 *   take       spans     all mappings               pages    copies of the anonymous pages of the writable private ones
 *   put back   mappings  unmap what came, map what went; only where /proc/self/maps reads otherwise
 *              pages     copy back what differs, clear what came
 *
 * A page of a file that a run was the first to write is kept from then on, in the state of the file: later runs find
 * it already copied. All that this file keeps stands in shared memory, which no snapshot has. */
#define _GNU_SOURCE
#include "agent.h"
#include <fcntl.h>
#include <stdbool.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096
#define SPAN_MAX 512
#define PAGE_MAX 65536
#define REGION_MAX 1024
#define TEXT_BYTES 131072

/* The kernel's PAGEMAP_SCAN (Linux 6.7), which the headers of older systems lack. */
struct scan_region {
    uint64_t start, end, categories;
};
struct scan {
    uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages, category_inverted, category_mask,
        category_anyof_mask, return_mask;
};
#define SCAN _IOWR('f', 16, struct scan)
#define SCAN_FILE (1 << 2)
#define SCAN_PRESENT (1 << 3)
#define SCAN_SWAPPED (1 << 4)

struct span {
    uint64_t start, end;
    bool tracked; /* private and writable */
    bool file;
};

struct span_list {
    struct span spans[SPAN_MAX];
    size_t count;
};

struct maps_text {
    char bytes[TEXT_BYTES];
    size_t length;
};

struct page {
    uint64_t address;
    char *copy;
};

static struct snapshot {
    int maps, pagemap;
    uint64_t brk;
    struct maps_text text_then, text_now;
    struct span_list then, now;
    struct page pages[PAGE_MAX]; /* in the order of their addresses */
    size_t page_count;
    char *next_copy;
    struct scan_region regions[REGION_MAX];
} *snapshot;

static void copy_page(void *to, const void *from)
{
    long count = PAGE;
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(count) : : "memory");
}

static void clear_page(void *page)
{
    long count = PAGE;
    __asm__ volatile("rep stosb" : "+D"(page), "+c"(count) : "a"(0) : "memory");
}

static bool pages_differ(const uint64_t *one, const uint64_t *other)
{
    for (int word = 0; word < PAGE / 8; word += 8) {
        uint64_t different = 0;
        for (int i = word; i < word + 8; i++)
            different |= one[i] ^ other[i];
        if (different)
            return true;
    }
    return false;
}

static void read_maps(struct maps_text *text)
{
    CALL(SYS_lseek, snapshot->maps, 0, SEEK_SET, 0);
    text->length = 0;
    long got;
    while ((got = CALL(SYS_read, snapshot->maps, text->bytes + text->length, TEXT_BYTES - text->length, 0)) > 0)
        text->length += (size_t)got;
    if (got < 0 || text->length == TEXT_BYTES)
        give_up();
}

static bool texts_differ(const struct maps_text *one, const struct maps_text *other)
{
    if (one->length != other->length)
        return true;
    for (size_t i = 0; i < one->length; i++)
        if (one->bytes[i] != other->bytes[i])
            return true;
    return false;
}

/* Reads a number in base 16, and steps over what follows it. */
static uint64_t number(const char **at)
{
    uint64_t value = 0;
    for (; **at > ' ' && **at != '-' && **at != ':'; ++*at)
        value = value * 16 + (uint64_t)(**at <= '9' ? **at - '0' : **at - 'a' + 10);
    ++*at;
    return value;
}

/* Each line: start-end rwxp offset major:minor inode name */
static void parse_maps(const struct maps_text *text, struct span_list *list)
{
    const char *at = text->bytes, *end = text->bytes + text->length;
    list->count = 0;
    while (at < end) {
        if (list->count == SPAN_MAX)
            give_up();
        struct span *span = &list->spans[list->count++];
        span->start = number(&at);
        span->end = number(&at);
        span->tracked = at[1] == 'w' && at[3] == 'p';
        at += 5;
        number(&at); /* offset */
        number(&at); /* major */
        number(&at); /* minor */
        span->file = *at != '0';
        while (at < end && *at++ != '\n')
            ;
    }
}

/* Calls `act` with each part of the spans of one list that no span of the other covers. */
static void for_uncovered(const struct span_list *these, const struct span_list *those,
                          void (*act)(uint64_t start, uint64_t end))
{
    size_t other = 0;
    for (size_t i = 0; i < these->count; i++) {
        uint64_t at = these->spans[i].start, end = these->spans[i].end;
        while (at < end) {
            while (other < those->count && those->spans[other].end <= at)
                other++;
            bool covered = other < those->count && those->spans[other].start <= at;
            uint64_t stop = end;
            if (other < those->count)
                stop = covered ? those->spans[other].end : those->spans[other].start;
            stop = stop < end ? stop : end;
            if (!covered)
                act(at, stop);
            at = stop;
        }
    }
}

static void unmap(uint64_t start, uint64_t end)
{
    CALL(SYS_munmap, start, end - start, 0, 0);
}

static void map_empty(uint64_t start, uint64_t end)
{
    call6(SYS_mmap, (long)start, (long)(end - start), PROT_READ | PROT_WRITE,
          MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

static void put_back_mappings(void)
{
    CALL(SYS_brk, snapshot->brk, 0, 0, 0);
    read_maps(&snapshot->text_now);
    if (!texts_differ(&snapshot->text_now, &snapshot->text_then))
        return;
    parse_maps(&snapshot->text_now, &snapshot->now);
    for_uncovered(&snapshot->now, &snapshot->then, unmap);
    for_uncovered(&snapshot->then, &snapshot->now, map_empty);
}

/* The first kept page that is not below `address`: its place in the order. */
static size_t place_of(uint64_t address)
{
    size_t low = 0, high = snapshot->page_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (snapshot->pages[middle].address < address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool is_kept(uint64_t address)
{
    size_t place = place_of(address);
    return place < snapshot->page_count && snapshot->pages[place].address == address;
}

static void keep_page(uint64_t address)
{
    if (snapshot->page_count == PAGE_MAX)
        give_up();
    size_t place = place_of(address);
    for (size_t i = snapshot->page_count++; i > place; i--)
        snapshot->pages[i] = snapshot->pages[i - 1];
    snapshot->pages[place] = (struct page){address, snapshot->next_copy};
    copy_page(snapshot->next_copy, (void *)address);
    snapshot->next_copy += PAGE;
}

/* Calls `act` with each page of the span that has memory of its own. */
static void for_own_pages(const struct span *span, void (*act)(const struct span *span, uint64_t page))
{
    struct scan scan = {.size = sizeof scan, .end = span->end, .walk_end = span->start,
                        .vec = (uint64_t)snapshot->regions, .vec_len = REGION_MAX,
                        .category_inverted = SCAN_FILE, .category_mask = SCAN_FILE,
                        .category_anyof_mask = SCAN_PRESENT | SCAN_SWAPPED,
                        .return_mask = SCAN_PRESENT | SCAN_SWAPPED};
    while (scan.walk_end < span->end) {
        scan.start = scan.walk_end;
        long count = CALL(SYS_ioctl, snapshot->pagemap, SCAN, &scan, 0);
        if (count < 0)
            give_up();
        for (long i = 0; i < count; i++)
            for (uint64_t page = snapshot->regions[i].start; page < snapshot->regions[i].end; page += PAGE)
                act(span, page);
    }
}

static void keep_own_page(const struct span *span, uint64_t page)
{
    (void)span;
    keep_page(page);
}

/* Empties a page that the run was the first to write, and leaves it mapped for the next run. */
static void empty_new_page(const struct span *span, uint64_t page)
{
    if (is_kept(page))
        return;
    if (!span->file) {
        clear_page((void *)page);
        return;
    }
    CALL(SYS_madvise, page, PAGE, MADV_DONTNEED, 0);
    keep_page(page);
    *(volatile char *)page = *(volatile char *)page;
}

static void for_tracked(void (*act)(const struct span *span, uint64_t page))
{
    for (size_t i = 0; i < snapshot->then.count; i++)
        if (snapshot->then.spans[i].tracked)
            for_own_pages(&snapshot->then.spans[i], act);
}

void memory_prepare(void)
{
    int flags = MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE;
    snapshot = mmap(NULL, sizeof *snapshot, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (snapshot == MAP_FAILED)
        give_up();
    snapshot->next_copy = mmap(NULL, (size_t)PAGE * PAGE_MAX, PROT_READ | PROT_WRITE, flags, -1, 0);
    snapshot->maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    snapshot->pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    if (snapshot->next_copy == MAP_FAILED || snapshot->maps < 0 || snapshot->pagemap < 0)
        give_up();
}

void memory_take(void)
{
    snapshot->brk = (uint64_t)CALL(SYS_brk, 0, 0, 0, 0);
    read_maps(&snapshot->text_then);
    parse_maps(&snapshot->text_then, &snapshot->then);
    for_tracked(keep_own_page);
}

void memory_put_back(void)
{
    put_back_mappings();
    for (size_t i = 0; i < snapshot->page_count; i++) {
        struct page *page = &snapshot->pages[i];
        if (pages_differ((const uint64_t *)page->address, (const uint64_t *)page->copy))
            copy_page((void *)page->address, page->copy);
    }
    for_tracked(empty_new_page);
}

void memory_close(void)
{
    CALL(SYS_close, snapshot->maps, 0, 0, 0);
    CALL(SYS_close, snapshot->pagemap, 0, 0, 0);
}
