/* Objects that the run loads: one of its own, beside the program, and the libc's libresolv;
 * none is there at the start of the next, and they load again as if for the first time. */
#include "maps.h"
#include <dlfcn.h>
#include <link.h>

static int objects;

static int count_one(struct dl_phdr_info *info, size_t size, void *count)
{
    (void)size;
    ++*(int *)count;
    return strstr(info->dlpi_name, "libvictim") != NULL;
}

__attribute__((constructor)) static void construct(void) { dl_iterate_phdr(count_one, &objects); }

static void *load(const char *name, int flags)
{
    void *object = dlopen(name, flags);
    if (object == NULL)
        fail("dlopen %s: %s", name, dlerror());
    return object;
}

static void check(void)
{
    int count = 0;
    if (dl_iterate_phdr(count_one, &count) != 0)
        fail("libvictim.so is loaded");
    same("loaded objects", count, objects);
    struct map map;
    if (map_named("libvictim", &map))
        fail("libvictim.so is mapped at %lx", map.low);
    if (dlopen("libvictim.so", RTLD_NOLOAD | RTLD_LAZY) != NULL)
        fail("libvictim.so is loaded in the loader's view");
    if (dlsym(RTLD_DEFAULT, "library_state") != NULL)
        fail("a symbol of libvictim.so is there");
    struct link_map *chain = ((struct link_map *)dlopen(NULL, RTLD_LAZY));
    int links = 0;
    for (; chain != NULL; chain = chain->l_next)
        links += strstr(chain->l_name, "libvictim") != NULL;
    same("libvictim.so in the link map", links, 0);
}

static void dirty(void)
{
    void *object = load("libvictim.so", RTLD_NOW | RTLD_GLOBAL);
    int (*state)(void) = (int (*)(void))dlsym(object, "library_state");
    same("the library's first state", state(), 1511);
    same("the library's second state", state(), 1621);
    dlclose(object);
    if (dlopen("libvictim.so", RTLD_NOLOAD | RTLD_LAZY) != NULL)
        fail("libvictim.so is still loaded");
    object = load("libvictim.so", RTLD_LAZY | RTLD_GLOBAL);
    state = (int (*)(void))dlsym(object, "library_state");
    same("the state of the library loaded again", state(), 1511);
    void *other = load("libresolv.so.2", RTLD_NOW);
    dlclose(other);
    load("libresolv.so.2", RTLD_NOW);
}
