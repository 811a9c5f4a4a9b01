/* The least that a client of these streams can cost: sockets on epoll, received bytes searched for the running count.
   reader PORT STREAMS EVENTS RATE: prints CPU seconds, wall seconds and events as JSON. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static double seconds(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

int main(int count, char **given) {
    if (count != 5) return 2;
    int port = atoi(given[1]), streams = atoi(given[2]), events = atoi(given[3]);
    double rate = atof(given[4]);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    int poller = epoll_create1(0);
    double cpu = seconds(CLOCK_PROCESS_CPUTIME_ID), wall = seconds(CLOCK_MONOTONIC);
    for (int i = 0; i < streams; i++) {
        int wire = socket(AF_INET, SOCK_STREAM, 0);
        char body[128], request[512];
        double first = 0.2 + (rate > 0 ? i / rate / streams : 0);
        int size = snprintf(body, sizeof body, "{\"events\":%d,\"rate\":%f,\"first_s\":%f}", events, rate, first);
        int whole = snprintf(request, sizeof request, "POST /generate HTTP/1.1\r\nContent-Length: %d\r\n\r\n%s", size, body);
        if (connect(wire, (struct sockaddr *)&address, sizeof address) || send(wire, request, whole, 0) != whole) return 1;
        struct epoll_event what = {.events = EPOLLIN, .data.fd = wire};
        epoll_ctl(poller, EPOLL_CTL_ADD, wire, &what);
    }
    const char key[] = "\"completion_tokens\":";
    enum { LEFT = sizeof key - 2 }; /* so much of a read may be the beginning of a key that the next one ends */
    static char buffer[LEFT + (1 << 18)], left[4096][LEFT];
    volatile long last = 0;
    long seen = 0, wanted = (long)streams * events;
    while (seen < wanted) {
        struct epoll_event ready[64];
        int many = epoll_wait(poller, ready, 64, 5000);
        if (many <= 0) return 1;
        for (int i = 0; i < many; i++) {
            int wire = ready[i].data.fd;
            ssize_t size = recv(wire, buffer + LEFT, 1 << 18, MSG_DONTWAIT);
            if (size <= 0) continue;
            memcpy(buffer, left[wire], LEFT);
            char *end = buffer + LEFT + size;
            for (char *at = buffer; (at = memmem(at, end - at, key, sizeof key - 1)); at += sizeof key - 1) {
                last = strtol(at + sizeof key - 1, NULL, 10);
                seen++;
            }
            memcpy(left[wire], end - LEFT, LEFT);
        }
    }
    printf("{\"cpu\": %f, \"wall\": %f, \"events\": %ld}\n", seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu,
           seconds(CLOCK_MONOTONIC) - wall, seen);
    return 0;
}
