/* Asking `iotide serve` from C, without HTTP: models of applications at thousands of sizes, what jobs are expected to do, who loads the storage, and events.
 *
 *     #define _GNU_SOURCE
 *     #include "iotide_rpc.h"
 *     ...
 *     iotide_rpc rpc;
 *     if (iotide_rpc_open(&rpc, NULL)) ...                           // the daemon's socket: /run/iotide/serve.sock.rpc, or IOTIDE_DAEMON with ".rpc"
 *     long write = iotide_rpc_resolve(&rpc, 1, "4711", "posix->write", "time", NULL, 0, NULL);
 *     double sizes[3] = {64, 512, 4096}, seconds[3];
 *     if (write < 0 || iotide_rpc_evaluate(&rpc, write, sizes, 1, 3, seconds, NULL)) puts(rpc.error);
 *     iotide_rpc_close(&rpc);
 *
 * C99 and POSIX, this file alone. Functions return 0, or -1 with a reason in `error` and a code as HTTP has them in `code` (0: the connection is broken, open another one).
 * A connection is for one thread at a time. The format of frames is in docs/rpc.md. */
#ifndef IOTIDE_RPC_H
#define IOTIDE_RPC_H

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#if defined(__GNUC__)
#define IOTIDE_RPC_FN static __attribute__((unused))
#else
#define IOTIDE_RPC_FN static
#endif

#define IOTIDE_RPC_MAX_POINTS 1024      /* in one message; more are sent in several */
#define IOTIDE_RPC_MAX_INTERVALS 16
#define IOTIDE_RPC_MAX_FRAME (1u << 20)

typedef struct {
    int fd;
    uint32_t next;       /* the number of the next question */
    uint32_t events;     /* the number of the subscription */
    int code;            /* why the last call failed */
    char error[256];
    unsigned char *in;   /* the last frame */
    uint32_t n_in;
} iotide_rpc;

/* What a job is expected to do; NAN where it is not known. */
typedef struct {
    char job[65];
    double period_s, next_phase_unix_s, idle_s, confidence, bytes_per_phase, load_bps;
} iotide_rpc_prediction;

IOTIDE_RPC_FN int iotide_rpc_fail(iotide_rpc *rpc, int code, const char *why) {
    rpc->code = code;
    snprintf(rpc->error, sizeof rpc->error, "%s", why);
    return -1;
}

/* Numbers are little-endian, whatever the machine is. */
IOTIDE_RPC_FN unsigned char *iotide_rpc_put(unsigned char *to, uint64_t value, int n_bytes) {
    for (int i = 0; i < n_bytes; i++) to[i] = (unsigned char)(value >> (8 * i));
    return to + n_bytes;
}
IOTIDE_RPC_FN uint64_t iotide_rpc_get(const unsigned char *from, int n_bytes) {
    uint64_t value = 0;
    for (int i = 0; i < n_bytes; i++) value |= (uint64_t)from[i] << (8 * i);
    return value;
}
IOTIDE_RPC_FN unsigned char *iotide_rpc_put_double(unsigned char *to, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return iotide_rpc_put(to, bits, 8);
}
IOTIDE_RPC_FN double iotide_rpc_get_double(const unsigned char *from) {
    uint64_t bits = iotide_rpc_get(from, 8);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
IOTIDE_RPC_FN unsigned char *iotide_rpc_put_text(unsigned char *to, const char *text) {
    size_t n = text ? strlen(text) : 0;
    if (n > 1024) n = 1024;
    to = iotide_rpc_put(to, n, 2);
    memcpy(to, text ? text : "", n);
    return to + n;
}

IOTIDE_RPC_FN int iotide_rpc_write(iotide_rpc *rpc, const unsigned char *bytes, size_t n) {
    while (n > 0) {
        ssize_t sent = send(rpc->fd, bytes, n, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent <= 0) return iotide_rpc_fail(rpc, 0, "the connection is broken");
        bytes += sent;
        n -= (size_t)sent;
    }
    return 0;
}
IOTIDE_RPC_FN int iotide_rpc_read(iotide_rpc *rpc, unsigned char *bytes, size_t n) {
    while (n > 0) {
        ssize_t got = recv(rpc->fd, bytes, n, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return iotide_rpc_fail(rpc, 0, "the connection is broken");
        bytes += got;
        n -= (size_t)got;
    }
    return 0;
}

/* Reads the next frame; its payload is in `in`. */
IOTIDE_RPC_FN int iotide_rpc_frame(iotide_rpc *rpc, uint8_t *kind, uint32_t *id) {
    unsigned char head[12];
    if (iotide_rpc_read(rpc, head, sizeof head)) return -1;
    uint64_t length = iotide_rpc_get(head, 4);
    if (length < 8 || length > IOTIDE_RPC_MAX_FRAME) return iotide_rpc_fail(rpc, 0, "a frame of no valid length");
    rpc->n_in = (uint32_t)length - 8;
    *kind = head[4];
    *id = (uint32_t)iotide_rpc_get(head + 8, 4);
    return iotide_rpc_read(rpc, rpc->in, rpc->n_in);
}

/* Sends a question (whose payload begins 12 bytes into `frame`) and waits for its answer. Events that come in between are dropped: subscribe on a connection of its own. */
IOTIDE_RPC_FN int iotide_rpc_ask(iotide_rpc *rpc, uint8_t kind, uint8_t flags, unsigned char *frame, size_t payload, uint8_t expected) {
    uint32_t number = rpc->next++, id;
    uint8_t answer;
    iotide_rpc_put(frame, payload + 8, 4);
    frame[4] = kind;
    frame[5] = flags;
    frame[6] = frame[7] = 0;
    iotide_rpc_put(frame + 8, number, 4);
    if (iotide_rpc_write(rpc, frame, payload + 12)) return -1;
    do {
        if (iotide_rpc_frame(rpc, &answer, &id)) return -1;
    } while (answer == 0x90);
    if (id != number) return iotide_rpc_fail(rpc, 0, "an answer to another question");
    if (answer == 0xff && rpc->n_in >= 4) {
        size_t n = (size_t)iotide_rpc_get(rpc->in + 2, 2);
        if (n > rpc->n_in - 4) n = rpc->n_in - 4;
        if (n >= sizeof rpc->error) n = sizeof rpc->error - 1;
        rpc->code = (int)iotide_rpc_get(rpc->in, 2);
        memcpy(rpc->error, rpc->in + 4, n);
        rpc->error[n] = 0;
        return -1;
    }
    if (answer != expected) return iotide_rpc_fail(rpc, 0, "an answer of another kind");
    return 0;
}

IOTIDE_RPC_FN void iotide_rpc_close(iotide_rpc *rpc) {
    if (rpc->fd >= 0) close(rpc->fd);
    free(rpc->in);
    rpc->fd = -1;
    rpc->in = NULL;
}

/* Connects to the socket at `path`; NULL for IOTIDE_DAEMON with ".rpc" behind it, else the machine's. */
IOTIDE_RPC_FN int iotide_rpc_open(iotide_rpc *rpc, const char *path) {
    struct sockaddr_un address;
    const char *daemon = getenv("IOTIDE_DAEMON");
    memset(rpc, 0, sizeof *rpc);
    memset(&address, 0, sizeof address);
    address.sun_family = AF_UNIX;
    int n = path ? snprintf(address.sun_path, sizeof address.sun_path, "%s", path)
                 : snprintf(address.sun_path, sizeof address.sun_path, "%s.rpc", daemon && *daemon ? daemon : "/run/iotide/serve.sock");
    rpc->fd = -1;
    if (n < 0 || (size_t)n >= sizeof address.sun_path) return iotide_rpc_fail(rpc, 0, "the path is too long");
    rpc->in = (unsigned char *)malloc(IOTIDE_RPC_MAX_FRAME);
    rpc->fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (!rpc->in || rpc->fd < 0 || connect(rpc->fd, (struct sockaddr *)&address, sizeof address)) {
        char why[200];
        snprintf(why, sizeof why, "%.120s: %s", address.sun_path, strerror(errno));
        iotide_rpc_close(rpc);
        return iotide_rpc_fail(rpc, 0, why);
    }
    if (iotide_rpc_write(rpc, (const unsigned char *)"iotrpc01", 8)) {
        iotide_rpc_close(rpc);
        return -1;
    }
    return 0;
}

/* Returns a handle for the model of a metric (of a job's application, or of an application), or -1. `callpath` may be NULL where the metric is enough; `parameters` name what points will
 * hold, in this order (n = 0: as the model has them, usually "size" alone). */
IOTIDE_RPC_FN long iotide_rpc_resolve(iotide_rpc *rpc, int is_job, const char *name, const char *callpath, const char *metric,
                                      const char *const *parameters, int n, uint64_t *generation) {
    if (n < 0 || n > 15) return iotide_rpc_fail(rpc, 400, "at most 15 parameters");
    unsigned char *frame = (unsigned char *)malloc(12 + 2 + 19 * 1026);
    if (!frame) return iotide_rpc_fail(rpc, 0, "no memory");
    unsigned char *to = frame + 12;
    *to++ = is_job ? 1 : 0;
    to = iotide_rpc_put_text(to, name);
    to = iotide_rpc_put_text(to, callpath);
    to = iotide_rpc_put_text(to, metric);
    *to++ = (unsigned char)n;
    for (int i = 0; i < n; i++) to = iotide_rpc_put_text(to, parameters[i]);
    int failed = iotide_rpc_ask(rpc, 1, 0, frame, (size_t)(to - frame) - 12, 0x81);
    free(frame);
    if (failed) return -1;
    if (rpc->n_in < 17) return iotide_rpc_fail(rpc, 0, "the answer is cut");
    if (generation) *generation = iotide_rpc_get(rpc->in + 4, 8);
    return (long)iotide_rpc_get(rpc->in, 4);
}

/* `width` numbers a point: the value; with intervals also its bounds. */
IOTIDE_RPC_FN int iotide_rpc_points(iotide_rpc *rpc, long handle, const double *points, int n_parameters, size_t n, double *values,
                                    uint64_t *generation, int width) {
    size_t most = width == 1 ? IOTIDE_RPC_MAX_POINTS : IOTIDE_RPC_MAX_INTERVALS;
    if (n_parameters < 0 || n_parameters > 15) return iotide_rpc_fail(rpc, 400, "at most 15 parameters");
    unsigned char *frame = (unsigned char *)malloc(20 + 8 * most * (size_t)(n_parameters > 0 ? n_parameters : 1));
    if (!frame) return iotide_rpc_fail(rpc, 0, "no memory");
    int failed = 0;
    while (n > 0 && !failed) {
        size_t now = n < most ? n : most;
        unsigned char *to = iotide_rpc_put(iotide_rpc_put(frame + 12, (uint64_t)handle, 4), now, 4);
        for (size_t i = 0; i < now * (size_t)n_parameters; i++) to = iotide_rpc_put_double(to, points[i]);
        failed = iotide_rpc_ask(rpc, 2, width == 1 ? 0 : 1, frame, (size_t)(to - frame) - 12, 0x82);
        if (!failed && rpc->n_in != 12 + 8 * now * (size_t)width) failed = iotide_rpc_fail(rpc, 0, "the answer is cut");
        if (failed) break;
        if (generation) *generation = iotide_rpc_get(rpc->in, 8);
        for (size_t i = 0; i < now * (size_t)width; i++) values[i] = iotide_rpc_get_double(rpc->in + 12 + 8 * i);
        points += now * (size_t)n_parameters;
        values += now * (size_t)width;
        n -= now;
    }
    free(frame);
    return failed;
}

/* Evaluates a model at n points of n_parameters numbers each. `generation` is another one once the models have been fitted anew. NAN: the function has no value there. */
IOTIDE_RPC_FN int iotide_rpc_evaluate(iotide_rpc *rpc, long handle, const double *points, int n_parameters, size_t n, double *values,
                                      uint64_t *generation) {
    return iotide_rpc_points(rpc, handle, points, n_parameters, n, values, generation, 1);
}

/* The same with intervals (90 %): `values` has n times value, low, high. Takes a thousand times as long. */
IOTIDE_RPC_FN int iotide_rpc_intervals(iotide_rpc *rpc, long handle, const double *points, int n_parameters, size_t n, double *values,
                                       uint64_t *generation) {
    return iotide_rpc_points(rpc, handle, points, n_parameters, n, values, generation, 3);
}

/* Bytes per second read and written now, and expected in the next minute, by `jobs` jobs: those that you may see. */
IOTIDE_RPC_FN int iotide_rpc_load(iotide_rpc *rpc, double load_bps[3], uint32_t *jobs) {
    unsigned char frame[12];
    if (iotide_rpc_ask(rpc, 5, 0, frame, 0, 0x85)) return -1;
    if (rpc->n_in < 28) return iotide_rpc_fail(rpc, 0, "the answer is cut");
    for (int i = 0; i < 3; i++) load_bps[i] = iotide_rpc_get_double(rpc->in + 8 * i);
    if (jobs) *jobs = (uint32_t)iotide_rpc_get(rpc->in + 24, 4);
    return 0;
}

/* What is expected of a job, or of all that run (NULL). Returns how many there are, of which at most `most` are in `out`; -1 on failure. */
IOTIDE_RPC_FN long iotide_rpc_predictions(iotide_rpc *rpc, const char *job, iotide_rpc_prediction *out, size_t most) {
    unsigned char frame[12 + 2 + 1024];
    unsigned char *end = iotide_rpc_put_text(frame + 12, job);
    if (iotide_rpc_ask(rpc, 4, 0, frame, (size_t)(end - frame) - 12, 0x84)) return -1;
    if (rpc->n_in < 4) return iotide_rpc_fail(rpc, 0, "the answer is cut");
    size_t n = (size_t)iotide_rpc_get(rpc->in, 4), at = 4;
    for (size_t i = 0; i < n; i++) {
        if (at + 2 > rpc->n_in) return iotide_rpc_fail(rpc, 0, "the answer is cut");
        size_t length = (size_t)iotide_rpc_get(rpc->in + at, 2);
        at += 2;
        if (length > 64 || at + length + 48 > rpc->n_in) return iotide_rpc_fail(rpc, 0, "the answer is cut");
        if (i < most) {
            memcpy(out[i].job, rpc->in + at, length);
            out[i].job[length] = 0;
            double *values[6] = {&out[i].period_s, &out[i].next_phase_unix_s, &out[i].idle_s, &out[i].confidence, &out[i].bytes_per_phase, &out[i].load_bps};
            for (int k = 0; k < 6; k++) *values[k] = iotide_rpc_get_double(rpc->in + at + length + 8 * (size_t)k);
        }
        at += length + 48;
    }
    return (long)n;
}

/* Jobs as JSON, as /api/1/jobs?QUERY answers; the text is in `in` until the next call, and `length` says how long it is. */
IOTIDE_RPC_FN const char *iotide_rpc_jobs(iotide_rpc *rpc, const char *query, size_t *length) {
    unsigned char frame[12 + 2 + 1024];
    unsigned char *end = iotide_rpc_put_text(frame + 12, query);
    if (iotide_rpc_ask(rpc, 3, 0, frame, (size_t)(end - frame) - 12, 0x83)) return NULL;
    *length = rpc->n_in;
    return (const char *)rpc->in;
}

/* Asks for events. Use a connection of its own for them. */
IOTIDE_RPC_FN int iotide_rpc_subscribe(iotide_rpc *rpc) {
    unsigned char frame[12];
    rpc->events = rpc->next;
    return iotide_rpc_ask(rpc, 6, 0, frame, 0, 0x86);
}

/* Waits for the next event: its kind ("job", "prediction", "model", "alarm", "missed") goes to `kind`; returns its JSON (`length` bytes, valid until the next call), or NULL. */
IOTIDE_RPC_FN const char *iotide_rpc_event(iotide_rpc *rpc, char kind[32], size_t *length) {
    uint8_t what;
    uint32_t id;
    do {
        if (iotide_rpc_frame(rpc, &what, &id)) return NULL;
    } while (what != 0x90 || rpc->n_in < 2);
    size_t n = (size_t)iotide_rpc_get(rpc->in, 2);
    if (n > rpc->n_in - 2 || n > 31) {
        iotide_rpc_fail(rpc, 0, "the event is cut");
        return NULL;
    }
    memcpy(kind, rpc->in + 2, n);
    kind[n] = 0;
    *length = rpc->n_in - 2 - n;
    return (const char *)rpc->in + 2 + n;
}

#endif
