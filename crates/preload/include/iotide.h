/* What a program may say to the tracer that runs in it. Optional: a program is traced without any of this.
 *
 *     #include <iotide.h>
 *     ...
 *     write_checkpoint();
 *     iotide_flush();        // what was recorded so far is in the trace now, for whoever follows it
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

/* Whether the tracer is here. */
static inline int iotide_is_tracing(void) { return iotide_flush_now != 0; }

#ifdef __cplusplus
}
#endif
#endif
