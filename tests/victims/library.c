/* The shared object that `loads` opens: it counts what was done with it. */
static int constructed, destructed, used;
static __thread int per_thread = 5;

__attribute__((constructor)) static void construct(void) { constructed++; }
__attribute__((destructor)) static void destruct(void) { destructed++; }

/* 1 construction, no destruction, first use, fresh thread-local data: 1511; each digit counts up. */
int library_state(void)
{
    used++;
    return constructed * 1000 + per_thread++ * 100 + used * 10 + (destructed ? 0 : 1);
}
