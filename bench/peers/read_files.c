// SPDX-License-Identifier: Apache-2.0
// Reads many files of one size into one buffer, by threads that share the files: what a program in
// C gets of a file system.
//
//   read_files THREADS BYTES < PATHS     prints the seconds of the second pass
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static char** paths;
static size_t count;
static size_t bytes;
static char* buffer;

struct part {
    size_t begin;
    size_t end;
};

static void* read_part(void* argument) {
    const struct part* part = argument;
    for (size_t i = part->begin; i < part->end; ++i) {
        const int file = open(paths[i], O_RDONLY | O_CLOEXEC);
        if (file < 0 || read(file, buffer + i * bytes, bytes) != (ssize_t)bytes) {
            perror(paths[i]);
            exit(1);
        }
        close(file);
    }
    return NULL;
}

static double pass(size_t threads) {
    struct timespec begin;
    struct timespec end;
    pthread_t ids[64];
    struct part parts[64];
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (size_t i = 0; i < threads; ++i) {
        parts[i] = (struct part){count * i / threads, count * (i + 1) / threads};
        if (pthread_create(&ids[i], NULL, read_part, &parts[i]) != 0) exit(1);
    }
    for (size_t i = 0; i < threads; ++i)
        pthread_join(ids[i], NULL);
    clock_gettime(CLOCK_MONOTONIC, &end);
    return (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) * 1e-9;
}

int main(int argument_count, char** arguments) {
    const size_t threads = argument_count == 3 ? strtoul(arguments[1], NULL, 10) : 0;
    if (threads == 0 || threads > 64) return 2;
    bytes = strtoul(arguments[2], NULL, 10);
    char* line = NULL;
    size_t room = 0;
    for (ssize_t length; (length = getline(&line, &room, stdin)) > 0; ++count) {
        if ((count & (count - 1)) == 0)
            paths = realloc(paths, (count == 0 ? 1 : 2 * count) * sizeof *paths);
        line[length - 1] = 0;
        paths[count] = strdup(line);
    }
    buffer = malloc(count * bytes);
    if (buffer == NULL) return 1;
    pass(threads);
    printf("%.6f\n", pass(threads));
    return 0;
}
