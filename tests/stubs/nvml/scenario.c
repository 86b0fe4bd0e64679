#define _GNU_SOURCE
#include "scenario.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct scenario scene;

static const char *const field_names[FIELDS] = {
    "name", "uuid", "memory_total", "memory_used", "memory_v2", "utilization", "memory_utilization",
    "temperature", "power", "power_limit", "clock", "memory_clock", "throttle", "ecc", "processes", "mig", "bus",
    "events", "fan", "state", "compute_mode", "energy", "remapped", "pcie_traffic", "pcie_generation", "pcie_width",
    "process_use", "memory_heat",
};

static int code_of(const char *text) {
    return strncmp(text, "hang", 4) == 0 ? HANG : atoi(text);
}

static void set_number(struct device *device, enum field field, unsigned long long number) {
    device->cells[field].number = number;
}

static void make_device(struct device *device, int index) {
    memset(device, 0, sizeof *device);
    device->seen = 1;
    snprintf(device->cells[NAME].text, sizeof device->cells[NAME].text, "NVIDIA Stub GPU");
    snprintf(device->cells[UUID].text, sizeof device->cells[UUID].text, "GPU-stub-%d", index);
    set_number(device, MEMORY_TOTAL, 80ULL << 30);
    set_number(device, MEMORY_USED, 1ULL << 30);
    set_number(device, POWER, 70000);
    set_number(device, POWER_LIMIT, 700000);
    set_number(device, TEMPERATURE, 30);
    set_number(device, CLOCK, 345);
    set_number(device, MEMORY_CLOCK, 2619);
    set_number(device, THROTTLE, 1);
    set_number(device, BUS, 0x17 + (unsigned)index);
    for (int field = FAN; field < FIELDS; field++)
        device->cells[field].code = 3; /* not supported, until a line gives it a value */
}

static struct device *gpu_at(int index) {
    struct device *device = &scene.gpus[index];
    if (!device->seen)
        make_device(device, index);
    if (index >= scene.gpu_count)
        scene.gpu_count = index + 1;
    return device;
}

/* "FIELD VALUE", "FIELD error CODE", "FIELD hang" or "lost". */
static void read_field(struct device *device, const char *line) {
    char name[32] = "", first[32] = "";
    int used = 0;
    if (sscanf(line, "%31s %n%31s", name, &used, first) < 1)
        return;
    if (strcmp(name, "lost") == 0) {
        device->lost = 1;
        return;
    }
    for (int field = 0; field < FIELDS; field++) {
        struct cell *cell = &device->cells[field];
        if (strcmp(name, field_names[field]) != 0)
            continue;
        if (strcmp(first, "error") == 0 || strcmp(first, "hang") == 0) {
            cell->code = code_of(first[0] == 'e' ? line + used + strlen("error ") : first);
        } else {
            cell->code = 0;
            cell->number = strtoull(first, NULL, 0);
            snprintf(cell->text, sizeof cell->text, "%s", line + used);
        }
    }
}

static void read_process(struct device *device, const char *line) {
    char memory[32] = "", kind[32] = "";
    unsigned pid;
    if (device->process_count >= MOST_PROCESSES || sscanf(line, "%u %31s %31s", &pid, memory, kind) < 2)
        return;
    struct process *process = &device->processes[device->process_count++];
    process->pid = pid;
    process->memory = memory[0] == '-' ? ~0ULL : strtoull(memory, NULL, 0);
    process->graphics = strcmp(kind, "graphics") == 0;
}

static void read_mig(int index, const char *line) {
    struct device *parent = gpu_at(index);
    if (scene.mig_counts[index] >= MOST_MIGS)
        return;
    struct device *mig = &scene.migs[index][scene.mig_counts[index]++];
    make_device(mig, index);
    mig->parent = parent;
    parent->cells[MIG].number = 1;
    sscanf(line, "%95s %llu %llu", mig->cells[UUID].text, &mig->cells[MEMORY_TOTAL].number,
           &mig->cells[MEMORY_USED].number);
    snprintf(mig->cells[NAME].text, sizeof mig->cells[NAME].text, "NVIDIA Stub GPU MIG 1g.10gb");
}

static void read_event(int number, const char *line) {
    struct event *event = &scene.events[scene.event_count];
    if (scene.event_count < MOST_EVENTS && sscanf(line, "%d %llu", &event->gpu, &event->xid) == 2 &&
        event->gpu >= 0 && event->gpu < MOST_GPUS) {
        event->number = number;
        scene.event_count++;
    }
}

static void read_line(char *line) {
    char word[32] = "";
    int index = 0, used = 0;
    line[strcspn(line, "\n")] = '\0';
    if (sscanf(line, "%31s %n", word, &used) < 1 || word[0] == '#')
        return;
    if (strcmp(word, "init") == 0)
        scene.init = code_of(line + used);
    else if (strcmp(word, "system") == 0)
        scene.system = code_of(line + used);
    else if (strcmp(word, "driver") == 0)
        snprintf(scene.driver, sizeof scene.driver, "%s", line + used);
    else if (strcmp(word, "xid") == 0) {
        if (sscanf(line, "%31s %d %n", word, &index, &used) >= 2)
            read_event(index, line + used);
    } else if (sscanf(line, "%31s %d %n", word, &index, &used) >= 2 && index >= 0 && index < MOST_GPUS) {
        if (strcmp(word, "gpu") == 0)
            read_field(gpu_at(index), line + used);
        else if (strcmp(word, "process") == 0)
            read_process(gpu_at(index), line + used);
        else if (strcmp(word, "mig") == 0)
            read_mig(index, line + used);
    }
}

void refresh_scene(void) {
    static struct stat before;
    struct stat now;
    const char *path = getenv("NVML_STUB_SCENARIO");
    if (path == NULL || stat(path, &now) != 0)
        return;
    if (now.st_ino == before.st_ino && now.st_mtim.tv_sec == before.st_mtim.tv_sec &&
        now.st_mtim.tv_nsec == before.st_mtim.tv_nsec)
        return;
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return;
    before = now;
    memset(&scene, 0, sizeof scene);
    snprintf(scene.driver, sizeof scene.driver, "570.00.00");
    char line[256];
    while (fgets(line, sizeof line, file) != NULL)
        read_line(line);
    fclose(file);
}
