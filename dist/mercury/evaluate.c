/* Asks iotide-mercury for a metric of a job's application at one or more sizes:
 *
 *     ./evaluate na+sm://4242-0 4711 'posix->write time' 64 512 4096
 */
#include <inttypes.h>
#include <mercury.h>
#include <mercury_proc_string.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct {
    hg_const_string_t jobid, metric;
    uint64_t size;
} evaluate_in;

typedef struct {
    int32_t code;
    uint64_t value;
    hg_string_t error;
} evaluate_out;

static hg_return_t proc_in(hg_proc_t proc, void *data) {
    evaluate_in *in = data;
    hg_return_t ret = hg_proc_hg_const_string_t(proc, &in->jobid);
    if (ret == HG_SUCCESS) ret = hg_proc_hg_const_string_t(proc, &in->metric);
    return ret == HG_SUCCESS ? hg_proc_uint64_t(proc, &in->size) : ret;
}

static hg_return_t proc_out(hg_proc_t proc, void *data) {
    evaluate_out *out = data;
    hg_return_t ret = hg_proc_int32_t(proc, &out->code);
    if (ret == HG_SUCCESS) ret = hg_proc_uint64_t(proc, &out->value);
    return ret == HG_SUCCESS ? hg_proc_hg_string_t(proc, &out->error) : ret;
}

/* Mercury's answer, once there is one. */
typedef struct {
    int is_done;
    hg_return_t ret;
} waiting;

static hg_return_t on_answer(const struct hg_cb_info *info) {
    waiting *wait = info->arg;
    wait->is_done = 1;
    wait->ret = info->ret;
    return HG_SUCCESS;
}

/* Returns 0, or 1 with a reason on stderr. */
static int ask(hg_context_t *context, hg_handle_t handle, evaluate_in *in) {
    waiting wait = {0, HG_SUCCESS};
    hg_return_t ret = HG_Forward(handle, on_answer, &wait, in);
    time_t give_up = time(NULL) + 30;
    for (int is_canceled = 0; ret == HG_SUCCESS && !wait.is_done;) {
        unsigned int n = 0;
        HG_Progress(context, 100);
        while (HG_Trigger(context, 0, 1, &n) == HG_SUCCESS && n > 0) continue;
        if (time(NULL) > give_up && !is_canceled) is_canceled = HG_Cancel(handle) == HG_SUCCESS;
    }
    evaluate_out out;
    if (ret == HG_SUCCESS) ret = wait.ret;
    if (ret == HG_SUCCESS) ret = HG_Get_output(handle, &out);
    if (ret != HG_SUCCESS) {
        fprintf(stderr, "no answer: %s\n", HG_Error_to_string(ret));
        return 1;
    }
    double size, value;
    memcpy(&size, &in->size, sizeof size);
    memcpy(&value, &out.value, sizeof value);
    int code = out.code;
    if (code) fprintf(stderr, "%d: %s\n", code, out.error);
    else printf("%g %.17g\n", size, value);
    HG_Free_output(handle, &out);
    return code != 0;
}

int main(int n_args, char **args) {
    if (n_args < 5) {
        fprintf(stderr, "usage: %s ADDRESS JOBID METRIC SIZE...\n", args[0]);
        return 2;
    }
    char protocol[64];
    snprintf(protocol, sizeof protocol, "%.*s", (int)strcspn(args[1], ":;"), args[1]);
    hg_class_t *class = HG_Init(protocol, 0);
    hg_context_t *context = class ? HG_Context_create(class) : NULL;
    hg_addr_t address = HG_ADDR_NULL;
    hg_handle_t handle = HG_HANDLE_NULL;
    if (!context || HG_Addr_lookup2(class, args[1], &address) != HG_SUCCESS) {
        fprintf(stderr, "%s cannot be reached\n", args[1]);
        return 2;
    }
    hg_id_t id = HG_Register_name(class, "evaluate", proc_in, proc_out, NULL);
    int failed = HG_Create(context, address, id, &handle) != HG_SUCCESS;
    for (int i = 4; i < n_args && !failed; i++) {
        double size = atof(args[i]);
        evaluate_in in = {.jobid = args[2], .metric = args[3]};
        memcpy(&in.size, &size, sizeof size);
        failed = ask(context, handle, &in);
    }
    if (handle != HG_HANDLE_NULL) HG_Destroy(handle);
    HG_Addr_free(class, address);
    HG_Context_destroy(context);
    HG_Finalize(class);
    return failed;
}
