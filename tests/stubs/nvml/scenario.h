/* What the stub answers: read from the text file that $NVML_STUB_SCENARIO names, again whenever it changes.
 *
 *   init 18                      nvmlInit returns this code (or: init hang)
 *   system 999                   nvmlDeviceGetCount returns this code (or: system hang)
 *   driver 570.86.15
 *   gpu 0 name NVIDIA H100 80GB HBM3
 *   gpu 0 memory_total 85520809984
 *   gpu 0 power error 3          this field returns a code
 *   gpu 0 remapped 3             rows; with 100 more a reset is due, with 200 more none is left
 *   gpu 0 process_use 40         percent of the GPU that each of its processes uses
 *   gpu 0 utilization hang       this field never returns
 *   gpu 0 lost                   everything about this GPU returns GPU_IS_LOST
 *   process 0 4242 1073741824 compute     ("-": the driver does not tell the memory)
 *   mig 0 MIG-1111 10737418240 1048576    uuid, total and used bytes
 *   gpu 0 events error 3         this GPU tells no events
 *   xid 1 0 79                   event number 1: Xid 79 of GPU 0; a number is told once, and only if it is new
 *
 * Built with -DR535 it is a driver 535.54, whose process lines are longer; with -DR470 one that has only `_v2` calls;
 * else one of CUDA 13, which has only `_v3` calls.
 */
#ifndef SCENARIO_H
#define SCENARIO_H

#define MOST_GPUS 16
#define MOST_PROCESSES 64
#define MOST_MIGS 8
#define MOST_EVENTS 64
#define HANG (-1)

enum field {
    NAME, UUID, MEMORY_TOTAL, MEMORY_USED, MEMORY_V2, UTILIZATION, MEMORY_UTILIZATION, TEMPERATURE,
    POWER, POWER_LIMIT, CLOCK, MEMORY_CLOCK, THROTTLE, ECC, PROCESSES, MIG, BUS, EVENTS,
    FAN, STATE, COMPUTE_MODE, ENERGY, REMAPPED, PCIE_TRAFFIC, PCIE_GENERATION, PCIE_WIDTH, PROCESS_USE, MEMORY_HEAT,
    FIELDS
};

struct cell {
    unsigned long long number;
    char text[96];
    int code;
};

struct process {
    unsigned pid;
    unsigned long long memory;
    int graphics;
};

struct device {
    struct cell cells[FIELDS];
    int seen, lost;
    struct process processes[MOST_PROCESSES];
    int process_count;
    struct device *parent;
};

struct event {
    int number, gpu;
    unsigned long long xid;
};

struct scenario {
    int init, system;
    char driver[80];
    int gpu_count;
    struct device gpus[MOST_GPUS];
    struct device migs[MOST_GPUS][MOST_MIGS];
    int mig_counts[MOST_GPUS];
    struct event events[MOST_EVENTS];
    int event_count;
};

extern struct scenario scene;

/* Read the file if it is not the one read last. */
void refresh_scene(void);

#endif
