/* A stand-in for libamd_smi.so with the functions the project calls; the others are generated and support nothing.
 * Written from amdsmi.h's documentation. It answers from the text file that $AMDSMI_STUB_SCENARIO names:
 *
 *   gpu 0 bus 0x85              its address: 0000:85:00.0
 *   gpu 0 function 3
 *   gpu 0 kfd_id 51234
 *   gpu 0 partition 0           without it, this GPU tells nothing of KFD
 *   gpu 0 gfx 88                percent; a field that is not named is not supported
 *   gpu 0 vram_total 196592     MiB, with vram_used
 *   gpu 0 power 410             watts
 *   gpu 0 clock 2100
 *   gpu 0 temperature 61
 *   gpu 0 busy3 70              percent, of the partition 3 of this card
 *   gpu 0 gfx -1                this call never returns
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_GPUS 16
#define UNSET (-2)
#define HANG (-1)
enum { SUCCESS = 0, NOT_SUPPORTED = 2 };
enum field {
    BUS, FUNCTION, KFD_ID, PARTITION, GFX, VRAM_TOTAL, VRAM_USED, POWER, CLOCK, TEMPERATURE,
    BUSY0, BUSY1, BUSY2, BUSY3, FIELDS
};

struct kfd_info {
    unsigned long long kfd_id;
    unsigned node, partition;
};

static const char *const names[FIELDS] = {
    "bus", "function", "kfd_id", "partition", "gfx", "vram_total", "vram_used", "power", "clock", "temperature",
    "busy0", "busy1", "busy2", "busy3",
};
static long values[MOST_GPUS][FIELDS];
static unsigned gpu_count;

static void read_scene(void) {
    char line[256], name[32], value[32];
    FILE *file = fopen(getenv("AMDSMI_STUB_SCENARIO"), "r");
    if (file == NULL)
        return;
    gpu_count = 0;
    for (int gpu = 0; gpu < MOST_GPUS; gpu++)
        for (int field = 0; field < FIELDS; field++)
            values[gpu][field] = UNSET;
    while (fgets(line, sizeof line, file) != NULL) {
        unsigned gpu;
        if (sscanf(line, " gpu %u %31s %31s", &gpu, name, value) != 3 || gpu >= MOST_GPUS)
            continue;
        if (gpu >= gpu_count)
            gpu_count = gpu + 1;
        for (int field = 0; field < FIELDS; field++)
            if (strcmp(name, names[field]) == 0)
                values[gpu][field] = strtol(value, NULL, 0);
    }
    fclose(file);
}

/* A handle is a pointer to a GPU's values. */
static int known(long *gpu, enum field field) {
    read_scene();
    while (gpu[field] == HANG)
        sleep(3600);
    return gpu[field] == UNSET ? NOT_SUPPORTED : SUCCESS;
}

int amdsmi_init(unsigned long long flags) {
    (void)flags;
    read_scene();
    return SUCCESS;
}

int amdsmi_shut_down(void) { return SUCCESS; }

int amdsmi_status_code_to_string(int status, const char **text) {
    *text = status == NOT_SUPPORTED ? "NOT_SUPPORTED" : "stub error";
    return SUCCESS;
}

int amdsmi_get_socket_handles(unsigned *count, void **sockets) {
    if (sockets != NULL)
        sockets[0] = values;
    *count = 1;
    return SUCCESS;
}

int amdsmi_get_processor_handles(void *socket, unsigned *count, void **handles) {
    (void)socket;
    for (unsigned i = 0; handles != NULL && i < gpu_count; i++)
        handles[i] = values[i];
    *count = gpu_count;
    return SUCCESS;
}

int amdsmi_get_gpu_device_bdf(long *gpu, unsigned long long *bdf) {
    long function = gpu[FUNCTION] == UNSET ? 0 : gpu[FUNCTION];
    *bdf = (unsigned long long)gpu[BUS] << 8 | (unsigned long long)function;
    return SUCCESS;
}

int amdsmi_get_gpu_kfd_info(long *gpu, struct kfd_info *info) {
    int code = known(gpu, PARTITION);
    if (code == SUCCESS) {
        info->kfd_id = (unsigned long long)gpu[KFD_ID];
        info->node = 1;
        info->partition = (unsigned)gpu[PARTITION];
    }
    return code;
}

int amdsmi_get_gpu_activity(long *gpu, unsigned *engines) {
    int code = known(gpu, GFX);
    if (code == SUCCESS) {
        engines[0] = (unsigned)gpu[GFX];
        engines[1] = engines[2] = 0xffff;
    }
    return code;
}

int amdsmi_get_gpu_vram_usage(long *gpu, unsigned *usage) {
    int code = known(gpu, VRAM_TOTAL);
    if (code == SUCCESS) {
        usage[0] = (unsigned)gpu[VRAM_TOTAL];
        usage[1] = (unsigned)gpu[VRAM_USED];
    }
    return code;
}

int amdsmi_get_power_info(long *gpu, char *info) {
    int code = known(gpu, POWER);
    unsigned current = 0xffff, average = (unsigned)gpu[POWER];
    if (code == SUCCESS) {
        memcpy(info + CURRENT_POWER_AT, &current, sizeof current);
        memcpy(info + AVERAGE_POWER_AT, &average, sizeof average);
    }
    return code;
}

int amdsmi_get_clock_info(long *gpu, int kind, unsigned *info) {
    int code = known(gpu, CLOCK);
    if (code == SUCCESS)
        info[0] = kind == GFX_CLOCK ? (unsigned)gpu[CLOCK] : ~0u;
    return code;
}

int amdsmi_get_temp_metric(long *gpu, int sensor, int metric, long long *value) {
    int code = known(gpu, TEMPERATURE);
    if (code == SUCCESS)
        *value = sensor == HOTSPOT && metric == 0 ? gpu[TEMPERATURE] : 0;
    return code;
}

int amdsmi_get_gpu_metrics_info(long *gpu, char *metrics) {
    int code = known(gpu, BUSY0);
    if (code != SUCCESS)
        return code;
    memset(metrics, 0xff, METRICS_SIZE);
    for (int part = 0; part < 4; part++) {
        unsigned busy = (unsigned)gpu[BUSY0 + part];
        if (gpu[BUSY0 + part] != UNSET)
            memcpy(metrics + PARTS_AT + part * PART_SIZE, &busy, sizeof busy);
    }
    return SUCCESS;
}
