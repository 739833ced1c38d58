/* What a program may say to the tracer that runs in it. Optional: a program is traced without any of this.
 *
 *     #include <iotide.h>
 *     ...
 *     write_checkpoint();
 *     iotide_flush();        // what was recorded so far is in the trace now, for whoever follows it
 *
 * Counters of the program's own are read while it runs, beside those of its I/O (`iotide record --live`):
 *
 *     static int steps;
 *     steps = iotide_counter("steps", "1");      // once; a name is letters, digits and _, at most 48, and there are at most 64
 *     ...
 *     iotide_add(steps, 1);                      // a few nanoseconds, from any thread
 *
 * Nothing needs to be linked. Without the tracer (`iotide record`, or LD_PRELOAD=libiotide.so) the calls do nothing. Fortran programs say
 * `call iotide_flush()` and link with something that defines it, or run under the tracer always.
 */
#ifndef IOTIDE_H
#define IOTIDE_H

#ifdef __cplusplus
extern "C" {
#endif

/* The tracer's own function; absent if the tracer is. */
extern void iotide_flush_now(void) __attribute__((weak));

/* Writes out what has been recorded so far: at the end of an I/O phase, for instance. May be called from any thread. */
static inline void iotide_flush(void) {
    if (iotide_flush_now) iotide_flush_now();
}

/* The tracer's own functions; absent if the tracer is. */
extern int iotide_counter_now(const char *name, const char *unit) __attribute__((weak));
extern void iotide_add_now(int counter, unsigned long long n) __attribute__((weak));

/* Returns the counter of that name, or -1 if nothing is counted. The same name is the same counter. */
static inline int iotide_counter(const char *name, const char *unit) {
    return iotide_counter_now ? iotide_counter_now(name, unit) : -1;
}

/* Adds to a counter. It only grows: what is counted is what has been done. */
static inline void iotide_add(int counter, unsigned long long n) {
    if (counter >= 0 && iotide_add_now) iotide_add_now(counter, n);
}

/* Whether the tracer is here. */
static inline int iotide_is_tracing(void) { return iotide_flush_now != 0; }

#ifdef __cplusplus
}
#endif
#endif
