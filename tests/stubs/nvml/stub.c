/* A stand-in for libnvidia-ml.so.1 with the functions the project calls. Written from nvml.h's documentation. */
#include "scenario.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    SUCCESS = 0,
    INVALID_ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7,
    TIMEOUT = 10,
    GPU_IS_LOST = 15,
};

struct memory {
    unsigned long long total, free, used;
};

struct memory_v2 {
    unsigned version;
    unsigned long long total, reserved, free, used;
};

struct utilization {
    unsigned gpu, memory;
};

struct pci {
    char legacy[16];
    unsigned domain, bus, device, id, subsystem;
    char bus_id[32];
};

struct process_entry {
    unsigned pid;
    unsigned long long memory;
    unsigned gpu_instance, compute_instance;
#ifdef R535
    unsigned long long protected_memory;
#endif
};

struct event_data {
    struct device *device;
    unsigned long long kind, data;
    unsigned gpu_instance, compute_instance;
};

static int answer(int code) {
    while (code == HANG)
        sleep(3600);
    return code;
}

/* The code a call about `field` of `device` returns, before it writes anything. */
static int consult(struct device *device, enum field field) {
    refresh_scene();
    if (device->lost || (device->parent != NULL && device->parent->lost))
        return GPU_IS_LOST;
    return answer(device->cells[field].code);
}

static int number(struct device *device, enum field field, unsigned *value) {
    int code = consult(device, field);
    if (code == SUCCESS)
        *value = (unsigned)device->cells[field].number;
    return code;
}

static int text(struct device *device, enum field field, char *value, unsigned length) {
    int code = consult(device, field);
    if (code == SUCCESS)
        snprintf(value, length, "%s", device->cells[field].text);
    return code;
}

int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    refresh_scene();
    return answer(scene.init);
}

int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }

int nvmlShutdown(void) { return SUCCESS; }

const char *nvmlErrorString(int code) {
    (void)code;
    return "stub error";
}

int nvmlSystemGetDriverVersion(char *value, unsigned length) {
    snprintf(value, length, "%s", scene.driver);
    return SUCCESS;
}

int nvmlDeviceGetCount_v2(unsigned *count) {
    refresh_scene();
    *count = (unsigned)scene.gpu_count;
    return answer(scene.system);
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct device **device) {
    refresh_scene();
    if (index >= (unsigned)scene.gpu_count)
        return INVALID_ARGUMENT;
    *device = &scene.gpus[index];
    return (*device)->lost ? GPU_IS_LOST : SUCCESS;
}

int nvmlDeviceGetName(struct device *device, char *value, unsigned length) {
    return text(device, NAME, value, length);
}

int nvmlDeviceGetUUID(struct device *device, char *value, unsigned length) {
    return text(device, UUID, value, length);
}

int nvmlDeviceGetPciInfo_v3(struct device *device, struct pci *pci) {
    int code = consult(device, BUS);
    if (code != SUCCESS)
        return code;
    memset(pci, 0, sizeof *pci);
    pci->bus = (unsigned)device->cells[BUS].number;
    snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", pci->bus & 0xff);
    return SUCCESS;
}

int nvmlDeviceGetUtilizationRates(struct device *device, struct utilization *value) {
    int code = consult(device, UTILIZATION);
    if (code == SUCCESS) {
        value->gpu = (unsigned)device->cells[UTILIZATION].number;
        value->memory = (unsigned)device->cells[MEMORY_UTILIZATION].number;
    }
    return code;
}

int nvmlDeviceGetMemoryInfo(struct device *device, struct memory *value) {
    int code = consult(device, MEMORY_TOTAL);
    if (code == SUCCESS) {
        value->total = device->cells[MEMORY_TOTAL].number;
        value->used = device->cells[MEMORY_USED].number;
        value->free = value->total - value->used;
    }
    return code;
}

int nvmlDeviceGetMemoryInfo_v2(struct device *device, struct memory_v2 *value) {
    int code = consult(device, MEMORY_V2);
    struct memory plain;
    if (code != SUCCESS || (code = nvmlDeviceGetMemoryInfo(device, &plain)) != SUCCESS)
        return code;
    value->total = plain.total;
    value->free = plain.free;
    value->used = plain.used;
    value->reserved = 0;
    return SUCCESS;
}

int nvmlDeviceGetTemperature(struct device *device, int sensor, unsigned *value) {
    (void)sensor;
    return number(device, TEMPERATURE, value);
}

int nvmlDeviceGetPowerUsage(struct device *device, unsigned *value) { return number(device, POWER, value); }

int nvmlDeviceGetEnforcedPowerLimit(struct device *device, unsigned *value) {
    return number(device, POWER_LIMIT, value);
}

int nvmlDeviceGetClockInfo(struct device *device, int kind, unsigned *value) {
    return number(device, kind == 2 ? MEMORY_CLOCK : CLOCK, value);
}

int nvmlDeviceGetCurrentClocksThrottleReasons(struct device *device, unsigned long long *value) {
    int code = consult(device, THROTTLE);
    if (code == SUCCESS)
        *value = device->cells[THROTTLE].number;
    return code;
}

int nvmlDeviceGetTotalEccErrors(struct device *device, int kind, int counter, unsigned long long *value) {
    int code = consult(device, ECC);
    if (code == SUCCESS)
        *value = kind == 1 && counter == 0 ? device->cells[ECC].number : 0;
    return code;
}

int nvmlDeviceGetFanSpeed(struct device *device, unsigned *value) { return number(device, FAN, value); }

int nvmlDeviceGetPerformanceState(struct device *device, unsigned *value) { return number(device, STATE, value); }

int nvmlDeviceGetComputeMode(struct device *device, unsigned *value) { return number(device, COMPUTE_MODE, value); }

int nvmlDeviceGetCurrPcieLinkGeneration(struct device *device, unsigned *value) {
    return number(device, PCIE_GENERATION, value);
}

int nvmlDeviceGetCurrPcieLinkWidth(struct device *device, unsigned *value) { return number(device, PCIE_WIDTH, value); }

int nvmlDeviceGetMaxPcieLinkGeneration(struct device *device, unsigned *value) {
    int code = number(device, PCIE_GENERATION, value);
    *value = 5;
    return code;
}

int nvmlDeviceGetMaxPcieLinkWidth(struct device *device, unsigned *value) { return number(device, PCIE_WIDTH, value); }

int nvmlDeviceGetPcieThroughput(struct device *device, int way, unsigned *value) {
    (void)way;
    return number(device, PCIE_TRAFFIC, value);
}

int nvmlDeviceGetTotalEnergyConsumption(struct device *device, unsigned long long *value) {
    int code = consult(device, ENERGY);
    if (code == SUCCESS)
        *value = device->cells[ENERGY].number;
    return code;
}

int nvmlDeviceGetRemappedRows(struct device *device, unsigned *corrected, unsigned *uncorrected, unsigned *pending,
                              unsigned *failed) {
    unsigned value = 0;
    int code = number(device, REMAPPED, &value);
    *corrected = 0;
    *uncorrected = value % 100;
    *pending = value / 100 % 2;
    *failed = value >= 200;
    return code;
}

struct field_value {
    unsigned field, scope;
    long long timestamp, latency;
    unsigned type, code;
    unsigned long long value;
};

int nvmlDeviceGetFieldValues(struct device *device, int count, struct field_value *values) {
    for (int i = 0; i < count; i++) {
        values[i].type = 1;
        values[i].code = values[i].field == 82 ? (unsigned)consult(device, MEMORY_HEAT) : 3;
        values[i].value = device->cells[MEMORY_HEAT].number;
    }
    return SUCCESS;
}

struct process_sample {
    unsigned pid;
    unsigned long long time;
    unsigned sm, memory, encoder, decoder;
};

int nvmlDeviceGetProcessUtilization(struct device *device, struct process_sample *samples, unsigned *count,
                                    unsigned long long since) {
    int code = consult(device, PROCESS_USE);
    (void)since;
    if (code != SUCCESS)
        return code;
    if (samples == NULL) {
        *count = (unsigned)device->process_count;
        return 7;
    }
    for (int i = 0; i < device->process_count; i++)
        samples[i] = (struct process_sample){device->processes[i].pid, 1, (unsigned)device->cells[PROCESS_USE].number, 0,
                                             0, 0};
    return SUCCESS;
}

int nvmlDeviceGetMigMode(struct device *device, unsigned *current, unsigned *pending) {
    int code = number(device, MIG, current);
    *pending = *current;
    return code;
}

int nvmlDeviceGetMaxMigDeviceCount(struct device *device, unsigned *count) {
    *count = MOST_MIGS;
    return consult(device, MIG);
}

int nvmlDeviceGetMigDeviceHandleByIndex(struct device *device, unsigned index, struct device **mig) {
    long gpu = device - scene.gpus;
    int code = consult(device, MIG);
    if (code != SUCCESS)
        return code;
    if (index >= (unsigned)scene.mig_counts[gpu])
        return NOT_FOUND;
    *mig = &scene.migs[gpu][index];
    return SUCCESS;
}

static int list(struct device *device, int graphics, unsigned *count, struct process_entry *entries) {
    int code = consult(device, PROCESSES);
    unsigned found = 0, room = *count;
    if (code != SUCCESS)
        return code;
    for (int i = 0; i < device->process_count; i++) {
        struct process *process = &device->processes[i];
        if (process->graphics != graphics)
            continue;
        if (found < room && entries != NULL)
            entries[found] = (struct process_entry){.pid = process->pid, .memory = process->memory};
        found++;
    }
    *count = found;
    return found > room ? INSUFFICIENT_SIZE : SUCCESS;
}

#ifdef R470
#define LISTS(kind) nvmlDeviceGet##kind##RunningProcesses_v2
#else
#define LISTS(kind) nvmlDeviceGet##kind##RunningProcesses_v3
int nvmlDeviceGetConfComputeMemSizeInfo(void) { return NOT_SUPPORTED; }
#endif
#if !defined R470 && !defined R535
int nvmlDeviceGetRunningProcessDetailList(void) { return NOT_SUPPORTED; }
#endif

int LISTS(Compute)(struct device *device, unsigned *count, struct process_entry *all) {
    return list(device, 0, count, all);
}

int LISTS(Graphics)(struct device *device, unsigned *count, struct process_entry *all) {
    return list(device, 1, count, all);
}

int LISTS(MPSCompute)(struct device *device, unsigned *count, struct process_entry *all) {
    (void)device, (void)all;
    *count = 0;
    return NOT_SUPPORTED;
}

/* Events: one set, into which GPUs are put by registering; what came before is not told. */
static int last_event;
static int listens[MOST_GPUS];

int nvmlEventSetCreate(int **set) {
    refresh_scene();
    for (int i = 0; i < scene.event_count; i++)
        if (scene.events[i].number > last_event)
            last_event = scene.events[i].number;
    *set = &last_event;
    return SUCCESS;
}

int nvmlDeviceRegisterEvents(struct device *device, unsigned long long kinds, int *set) {
    int code = consult(device, EVENTS);
    (void)set;
    if (code == SUCCESS && (kinds & 8))
        listens[device - scene.gpus] = 1;
    return code;
}

int nvmlEventSetWait_v2(int *set, struct event_data *data, unsigned milliseconds) {
    (void)milliseconds;
    refresh_scene();
    for (int i = 0; i < scene.event_count; i++) {
        struct event *event = &scene.events[i];
        if (event->number <= *set || !listens[event->gpu])
            continue;
        *set = event->number;
        *data = (struct event_data){&scene.gpus[event->gpu], 8, event->xid, ~0u, ~0u};
        return SUCCESS;
    }
    return TIMEOUT;
}

int nvmlEventSetFree(int *set) {
    (void)set;
    return SUCCESS;
}
