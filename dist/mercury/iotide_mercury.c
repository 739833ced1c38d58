/* Answers `evaluate` over Mercury (https://mercury-hpc.github.io, 2.4 or later) for the models of `iotide serve`, as the metric proxy of ADMIRE does (deliverable 5.5, section 3.2.4):
 *
 *     make                                                      # with pkg-config's mercury.pc; or:
 *     cc -std=c11 -O2 -I../rpc -o iotide-mercury iotide_mercury.c -lmercury
 *     ./iotide-mercury na+sm:// &                               # programs of this machine; the first line is the address to call
 *     ./iotide-mercury ofi+tcp://10.1.0.1:7777 /run/iotide/serve.sock.rpc
 *
 * Without a second argument, the daemon is that of IOTIDE_DAEMON, else the machine's. The deliverable names what the call takes and gives, but no layout. This is ours, in Mercury's own types:
 *
 *     in:   hg_const_string_t jobid     a job that runs or has ended: its application is meant
 *           hg_const_string_t metric    as /model/get names it: call path, space, metric ("posix->write time"); the metric alone where there is but one
 *           uint64_t          size      the bits of a double
 *     out:  int32_t           code      0, or a code as HTTP has them: 400 what is no question, 404 what is not known, 422 no value there, 503 the daemon is away, ...
 *           uint64_t          value     the bits of a double; NaN unless code is 0
 *           hg_const_string_t error     the reason; empty if code is 0
 *
 * Mercury does not say who calls. Whoever reaches the address gets what the user of this program may see: do not run it as root on a network that others share. */
#define _GNU_SOURCE
#include "iotide_rpc.h"

#include <math.h>
#include <mercury.h>
#include <mercury_proc.h>
#include <signal.h>
#include <sys/time.h>
#include <time.h>

#define MAX_TEXT 1024           /* as in frames */
#define MAX_HANDLES 2048        /* the daemon gives a connection 4,096 */
#define N_SLOTS (2 * MAX_HANDLES)
#define DAEMON_TIMEOUT_S 10     /* for an application whose models must be fitted first */
#define RESOLVE_AGAIN_S 60      /* the id may be that of another job by then */

typedef struct {
    char job[MAX_TEXT + 1], metric[MAX_TEXT + 1];
    double size;
    hg_size_t n_bytes;          /* that it took in the message */
} question;

typedef struct {
    int32_t code;
    double value;
    char error[MAX_TEXT + 1];
} answer;

/* A metric that the daemon has given this connection a handle for. */
typedef struct {
    char *name;                 /* job, NUL, metric, NUL; NULL: the slot is free */
    size_t n_name;
    long handle;
    time_t until_s;             /* to be resolved again from then on */
} known;

static const char *socket_path;
static iotide_rpc rpc = {.fd = -1};
static known slots[N_SLOTS];
static int n_handles;
static volatile sig_atomic_t is_stopped;

static void stop(int signal) {
    (void)signal;
    is_stopped = 1;
}

static void refuse(answer *out, int code, const char *why) {
    out->code = code;
    out->value = NAN;
    snprintf(out->error, sizeof out->error, "%s", why);
}

/* ---- Arguments ---- */

/* Mercury hands out memory that nobody has written where a message is shorter than what is read from it. */
static int is_cut(hg_proc_t proc, hg_size_t n) {
    return hg_proc_get_op(proc) == HG_DECODE && hg_proc_get_size_left(proc) < n;
}

static hg_return_t proc_double(hg_proc_t proc, double *value) {
    uint64_t bits;
    memcpy(&bits, value, sizeof bits);
    if (is_cut(proc, sizeof bits)) return HG_OVERFLOW;
    hg_return_t ret = hg_proc_uint64_t(proc, &bits);
    memcpy(value, &bits, sizeof bits);
    return ret;
}

/* What Mercury sends for a hg_const_string_t: the length with the NUL (0: no text), the bytes, and two bytes about who owns them. Its own function allocates whatever length is claimed. */
static hg_return_t proc_text(hg_proc_t proc, char text[MAX_TEXT + 1]) {
    uint64_t n = hg_proc_get_op(proc) == HG_ENCODE ? strlen(text) + 1 : 0;
    uint8_t is_const = 0, is_owned = 0;
    if (is_cut(proc, sizeof n)) return HG_OVERFLOW;
    hg_return_t ret = hg_proc_uint64_t(proc, &n);
    if (ret != HG_SUCCESS) return ret;
    if (n > MAX_TEXT + 1 || is_cut(proc, n)) return HG_OVERFLOW;
    if (n == 0) {
        text[0] = 0;
        return HG_SUCCESS;
    }
    ret = hg_proc_bytes(proc, text, n);
    if (ret != HG_SUCCESS) return ret;
    /* No byte behind the first NUL may be left: texts are compared up to there. */
    if (memchr(text, 0, n) != text + n - 1) return HG_PROTOCOL_ERROR;
    if (is_cut(proc, 2)) return HG_OVERFLOW;
    ret = hg_proc_uint8_t(proc, &is_const);
    return ret == HG_SUCCESS ? hg_proc_uint8_t(proc, &is_owned) : ret;
}

static hg_return_t proc_question(hg_proc_t proc, void *data) {
    question *asked = data;
    if (hg_proc_get_op(proc) == HG_FREE) return HG_SUCCESS;
    hg_return_t ret = proc_text(proc, asked->job);
    if (ret == HG_SUCCESS) ret = proc_text(proc, asked->metric);
    if (ret == HG_SUCCESS) ret = proc_double(proc, &asked->size);
    asked->n_bytes = hg_proc_get_size_used(proc);
    return ret;
}

static hg_return_t proc_answer(hg_proc_t proc, void *data) {
    answer *out = data;
    if (hg_proc_get_op(proc) == HG_FREE) return HG_SUCCESS;
    hg_return_t ret = hg_proc_int32_t(proc, &out->code);
    if (ret == HG_SUCCESS) ret = proc_double(proc, &out->value);
    return ret == HG_SUCCESS ? proc_text(proc, out->error) : ret;
}

/* ---- The daemon ---- */

/* Handles are a connection's own: without it they mean nothing. */
static void disconnect(void) {
    iotide_rpc_close(&rpc);
    for (size_t i = 0; i < N_SLOTS; i++) {
        free(slots[i].name);
        slots[i] = (known){0};
    }
    n_handles = 0;
}

static int connect_to_daemon(void) {
    if (iotide_rpc_open(&rpc, socket_path)) return -1;
    struct timeval limit = {.tv_sec = DAEMON_TIMEOUT_S};
    setsockopt(rpc.fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(rpc.fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    return 0;
}

static time_t now_s(void) {
    struct timespec now = {0};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

/* The slot of this name, or the free one that it would have. There is always one: half of them are enough for all handles. */
static known *slot_of(const char *name, size_t n_name) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n_name; i++) hash = (hash ^ (unsigned char)name[i]) * 0x100000001b3u;
    size_t at = (size_t)(hash ^ hash >> 32) % N_SLOTS;
    while (slots[at].name && (slots[at].n_name != n_name || memcmp(slots[at].name, name, n_name))) at = (at + 1) % N_SLOTS;
    return &slots[at];
}

/* The daemon's handle for what is asked, resolved if there is none yet; -1 with a reason in `rpc`. */
static long handle_of(const question *asked, known **slot) {
    char name[2 * (MAX_TEXT + 1)], callpath[MAX_TEXT + 1];
    size_t n_job = strlen(asked->job) + 1, n_name = n_job + strlen(asked->metric) + 1;
    memcpy(name, asked->job, n_job);
    memcpy(name + n_job, asked->metric, n_name - n_job);
    *slot = slot_of(name, n_name);
    if ((*slot)->name && now_s() < (*slot)->until_s) return (*slot)->handle;
    const char *space = strrchr(asked->metric, ' '), *metric = space ? space + 1 : asked->metric;
    snprintf(callpath, sizeof callpath, "%.*s", space ? (int)(space - asked->metric) : 0, asked->metric);
    long handle = iotide_rpc_resolve(&rpc, 1, asked->job, callpath, metric, NULL, 0, NULL);
    if (handle < 0) return -1;
    n_handles++;
    if (!(*slot)->name) {
        char *kept = malloc(n_name);
        if (!kept) return handle;
        memcpy(kept, name, n_name);
        (*slot)->name = kept;
        (*slot)->n_name = n_name;
    }
    (*slot)->handle = handle;
    (*slot)->until_s = now_s() + RESOLVE_AGAIN_S;
    return handle;
}

static void evaluate(const question *asked, answer *out) {
    /* Handles are never given back, except all at once. */
    if (n_handles >= MAX_HANDLES) disconnect();
    for (;;) {
        int was_open = rpc.fd >= 0;
        if (!was_open && connect_to_daemon()) return refuse(out, 503, rpc.error);
        known *slot;
        int n_before = n_handles;
        errno = 0;
        long handle = handle_of(asked, &slot);
        int was_known = handle >= 0 && n_handles == n_before;
        if (handle >= 0 && !iotide_rpc_evaluate(&rpc, handle, &asked->size, 1, 1, &out->value, NULL)) {
            if (!isfinite(out->value)) refuse(out, 422, "the function has no value there");
            return;
        }
        if (rpc.code == 0) {
            /* A daemon that was started anew is asked again, one that does not answer in time is not: others wait, too. */
            int is_late = errno == EAGAIN || errno == EWOULDBLOCK;
            disconnect();
            if (!was_open || is_late) return refuse(out, 503, is_late ? "the daemon does not answer in time" : rpc.error);
        } else if (was_known && (rpc.code == 404 || rpc.code == 409)) {
            slot->until_s = 0;
        } else {
            return refuse(out, rpc.code, rpc.error);
        }
    }
}

/* ---- Mercury ---- */

static hg_return_t on_evaluate(hg_handle_t handle) {
    static question asked;
    static answer out;
    memset(&out, 0, sizeof out);
    if (HG_Get_input(handle, &asked) != HG_SUCCESS) {
        refuse(&out, 400, "the arguments are cut or too long");
    } else {
        /* The buffer may be longer than the message: what is behind it is another caller's. */
        if (asked.n_bytes > HG_Get_input_payload_size(handle)) refuse(&out, 400, "the arguments are cut");
        else evaluate(&asked, &out);
        HG_Free_input(handle, &asked);
    }
    hg_return_t ret = HG_Respond(handle, NULL, NULL, &out);
    HG_Destroy(handle);
    return ret;
}

static int print_address(hg_class_t *class) {
    char text[512];
    hg_size_t n = sizeof text;
    hg_addr_t self = HG_ADDR_NULL;
    if (HG_Addr_self(class, &self) != HG_SUCCESS) return -1;
    hg_return_t ret = HG_Addr_to_string(class, text, &n, self);
    HG_Addr_free(class, self);
    return ret != HG_SUCCESS || printf("%s\n", text) < 0 || fflush(stdout) ? -1 : 0;
}

static int serve(hg_class_t *class, hg_context_t *context) {
    if (HG_Register_name(class, "evaluate", proc_question, proc_answer, on_evaluate) == 0 || print_address(class)) return -1;
    for (int n_failed = 0; !is_stopped;) {
        unsigned int n_called = 0;
        while (!is_stopped && HG_Trigger(context, 0, 1, &n_called) == HG_SUCCESS && n_called > 0) continue;
        /* A signal that comes just before is seen after this time. */
        hg_return_t ret = HG_Progress(context, 500);
        if (ret == HG_SUCCESS || ret == HG_TIMEOUT || ret == HG_INTERRUPT || ret == HG_AGAIN) {
            n_failed = 0;
            continue;
        }
        /* A caller that is gone fails, too: only what does not pass is the end. */
        fprintf(stderr, "Mercury: %s\n", HG_Error_to_string(ret));
        if (++n_failed == 100) return -1;
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    }
    return 0;
}

int main(int n_args, char **args) {
    if (n_args < 2 || n_args > 3) {
        fprintf(stderr, "usage: %s ADDRESS [SOCKET.rpc]     for example na+sm:// or ofi+tcp://10.1.0.1:7777\n", args[0]);
        return 2;
    }
    socket_path = n_args > 2 ? args[2] : NULL;
    struct sigaction action = {.sa_handler = stop};
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    if (connect_to_daemon()) fprintf(stderr, "%s; tried again when somebody asks\n", rpc.error);
    hg_class_t *class = HG_Init(args[1], 1);
    hg_context_t *context = class ? HG_Context_create(class) : NULL;
    int failed = !context || serve(class, context);
    if (failed) fprintf(stderr, "%s: Mercury does not listen there, or not any longer\n", args[1]);
    if (context) HG_Context_destroy(context);
    if (class) HG_Finalize(class);
    disconnect();
    return failed ? 1 : 0;
}
