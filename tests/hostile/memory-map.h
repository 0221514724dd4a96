/* Changes what the kernel knows of the address space by PR_SET_MM_MAP, the rest being as it is. */
#ifndef MEMORY_MAP_H
#define MEMORY_MAP_H

struct memory_map {
    uint64_t start_code, end_code, start_data, end_data, start_brk, brk, start_stack;
    uint64_t arg_start, arg_end, env_start, env_end;
    uint64_t *auxv;
    uint32_t auxv_size;
    int32_t exe_fd;
};

static void set_map(uint64_t *vector, uint32_t bytes, int file)
{
    struct memory_map map = {.auxv = vector, .auxv_size = bytes, .exe_fd = file};
    char text[2048];
    read_text("/proc/self/stat", text, sizeof text);
    uint64_t field[53] = {0};
    char *at = strrchr(text, ')') + 1;
    for (int number = 3; number <= 52 && at != NULL; number++) {
        field[number] = strtoull(at + 1, NULL, 10);
        at = strchr(at + 1, ' ');
    }
    map.start_code = field[26], map.end_code = field[27], map.start_stack = field[28];
    map.start_data = field[45], map.end_data = field[46], map.start_brk = field[47];
    map.arg_start = field[48], map.arg_end = field[49], map.env_start = field[50], map.env_end = field[51];
    map.brk = (uint64_t)sbrk(0);
#ifdef OTHER_BOUNDS
    map.arg_start = map.env_start = (uint64_t)data;
    map.arg_end = map.env_end = (uint64_t)data + 16;
    map.start_stack = (uint64_t)data + PAGE;
#endif
    if (prctl(PR_SET_MM, PR_SET_MM_MAP, &map, sizeof map, 0) != 0)
        LACK("PR_SET_MM_MAP");
}

#endif
