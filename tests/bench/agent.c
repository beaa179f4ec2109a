/* The agent of the benchmark: far faster than anything that stands in front of it.
 *
 * It speaks ACP lines on stdin and stdout with tests/bench/client.py, whose requests have their
 * members in one order (jsonrpc, id, method, params; sessionId before prompt), so it looks for
 * bytes and parses nothing. What a prompt's text begins with says what it does:
 *
 *   BENCH n size [plain|hermes|escaped|tool]
 *           n updates whose text is `size` bytes of JSON, beginning with a number of ten digits
 *           that counts from 0; one write(2) each, as real agents do. plain is an
 *           agent_message_chunk with its members in the order of most agents, hermes in that of
 *           Hermes, escaped has escapes in its text, tool is a tool_call_update.
 *   CHECK   no update; the answer's _meta has the bytes and the CRC-32 of the prompt's line from
 *           behind its id on: a daemon puts an id of its own before that.
 *   else    one short update.
 *
 * Then the prompt is answered end_turn with a usage, so that no bridge need doubt the answer.
 * session/new gives bench-1, bench-2, ...; any other request is answered {}.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define READ_BYTES (1 << 18)
#define SHORT_BYTES 1024
#define FRONT_BYTES 4096

struct text {
    const char *at;
    size_t bytes;
};

static long sessions;

static void write_all(const char *at, size_t bytes) {
    while (bytes > 0) {
        ssize_t done = write(1, at, bytes);
        if (done >= 0) {
            at += done;
            bytes -= (size_t)done;
        } else if (errno == EAGAIN) {
            /* The other end may share our open file and have made it non-blocking. */
            struct pollfd room = {.fd = 1, .events = POLLOUT};
            poll(&room, 1, -1);
        } else if (errno != EINTR) {
            exit(0);
        }
    }
}

static void *get(void *old, size_t bytes) {
    void *memory = realloc(old, bytes);
    if (memory == NULL) abort();
    return memory;
}

/* What stands in `line` behind `key` up to the first of `ends`; empty if there is no key. */
static struct text behind(struct text line, const char *key, const char *ends) {
    const char *at = memmem(line.at, line.bytes, key, strlen(key));
    if (at == NULL) return (struct text){"", 0};
    at += strlen(key);
    const char *end = at, *last = line.at + line.bytes;
    while (end < last && strchr(ends, *end) == NULL) end++;
    return (struct text){at, (size_t)(end - at)};
}

static void answer(struct text id, const char *result) {
    char line[SHORT_BYTES];
    int bytes = snprintf(line, sizeof line, "{\"jsonrpc\":\"2.0\",\"id\":%.*s,\"result\":%s}\n",
                         (int)id.bytes, id.at, result);
    if (bytes < 0 || (size_t)bytes >= sizeof line) abort();
    write_all(line, (size_t)bytes);
}

static void end_turn(struct text id, long updates, const char *meta) {
    char result[SHORT_BYTES / 2];
    snprintf(result, sizeof result,
             "{\"stopReason\":\"end_turn\",\"usage\":{\"totalTokens\":%ld,\"inputTokens\":1,"
             "\"outputTokens\":%ld}%s}",
             updates + 1, updates, meta);
    answer(id, result);
}

static uint32_t crc32_of(struct text line) {
    static uint32_t table[256];
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t value = byte;
        for (int bit = 0; bit < 8; bit++) value = value & 1 ? 0xEDB88320u ^ value >> 1 : value >> 1;
        table[byte] = value;
    }
    uint32_t crc = 0xFFFFFFFFu;
    for (size_t i = 0; i < line.bytes; i++)
        crc = table[(crc ^ (unsigned char)line.at[i]) & 0xFF] ^ crc >> 8;
    return ~crc;
}

static void check(struct text id, struct text line) {
    char meta[SHORT_BYTES / 4];
    const char *from = id.at + id.bytes;
    line = (struct text){from, (size_t)(line.at + line.bytes - from)};
    snprintf(meta, sizeof meta, ",\"_meta\":{\"bytes\":%zu,\"crc32\":%u}", line.bytes,
             (unsigned)crc32_of(line));
    end_turn(id, 0, meta);
}

/* The text of one update; client.py builds the same. */
static void fill(char *text, long size, int escaped) {
    const char *pattern = escaped ? "say \\\"ok\\\"\\n" : "abcdefghijklmnopqrstuvwxyz";
    size_t period = strlen(pattern);
    for (long i = 0; i < size; i++) text[i] = pattern[(size_t)i % period];
    /* No escape is cut in two. */
    if (escaped)
        for (long i = size - size % (long)period; i < size; i++) text[i] = '.';
    for (int digit = 0; digit < 10; digit++) text[digit] = '0';
}

struct style {
    const char *name, *before, *after;
};

/* What stands around an update's text; the first style is the default. */
static const struct style styles[] = {
    {"plain",
     "\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"text\",\"text\":\"",
     "\"}}}}\n"},
    {"escaped",
     "\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"text\",\"text\":\"",
     "\"}}}}\n"},
    {"hermes", "\"content\":{\"text\":\"",
     "\",\"type\":\"text\"},\"sessionUpdate\":\"agent_message_chunk\"}}}\n"},
    {"tool",
     "\"sessionUpdate\":\"tool_call_update\",\"toolCallId\":\"call-1\",\"content\":"
     "[{\"type\":\"content\",\"content\":{\"type\":\"text\",\"text\":\"",
     "\"}}]}}}\n"},
};

static void stream(struct text session, long n, long size, const char *name) {
    const struct style *style = styles;
    for (size_t i = 0; i < sizeof styles / sizeof *styles; i++)
        if (strcmp(styles[i].name, name) == 0) style = &styles[i];
    char *line = get(NULL, SHORT_BYTES + (size_t)size);
    int head = snprintf(line, SHORT_BYTES / 2,
                        "{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":"
                        "{\"sessionId\":\"%.*s\",\"update\":{%s",
                        (int)session.bytes, session.at, style->before);
    if (head < 0 || head >= SHORT_BYTES / 2) abort();
    char *text = line + head;
    fill(text, size, strcmp(name, "escaped") == 0);
    memcpy(text + size, style->after, strlen(style->after));
    size_t bytes = (size_t)head + (size_t)size + strlen(style->after);
    for (long i = 0; i < n; i++) {
        write_all(line, bytes);
        for (int digit = 9; digit >= 0 && ++text[digit] > '9'; digit--) text[digit] = '0';
    }
    free(line);
}

static void prompt(struct text id, struct text front, struct text line) {
    struct text session = behind(front, "\"sessionId\":\"", "\"");
    struct text words = behind(front, "\"text\":\"", "\"");
    char style[16] = "plain", order[128];
    long n = 0, size = 0;
    snprintf(order, sizeof order, "%.*s", (int)(words.bytes < 100 ? words.bytes : 100), words.at);
    if (strncmp(order, "CHECK", 5) == 0) {
        check(id, line);
    } else if (sscanf(order, "BENCH %ld %ld %15s", &n, &size, style) >= 2 && size >= 10) {
        stream(session, n, size, style);
        end_turn(id, n, "");
    } else {
        stream(session, 1, 20, style);
        end_turn(id, 1, "");
    }
}

static void take(struct text line) {
    /* All that is looked for stands in front; a line of many MiB is not searched. */
    struct text front = {line.at, line.bytes < FRONT_BYTES ? line.bytes : FRONT_BYTES};
    struct text id = behind(front, "\"id\":", ",}");
    struct text method = behind(front, "\"method\":\"", "\"");
    char result[SHORT_BYTES / 2];
    if (id.bytes == 0 || method.bytes == 0) return;
    if (method.bytes == 14 && memcmp(method.at, "session/prompt", 14) == 0) {
        prompt(id, front, line);
    } else if (method.bytes == 11 && memcmp(method.at, "session/new", 11) == 0) {
        snprintf(result, sizeof result,
                 "{\"sessionId\":\"bench-%ld\",\"modes\":{\"currentModeId\":\"m\","
                 "\"availableModes\":[{\"id\":\"m\",\"name\":\"M\"}]}}",
                 ++sessions);
        answer(id, result);
    } else if (method.bytes == 10 && memcmp(method.at, "initialize", 10) == 0) {
        answer(id, "{\"protocolVersion\":1,\"agentCapabilities\":{\"loadSession\":true},"
                   "\"agentInfo\":{\"name\":\"benchagent\",\"version\":\"1\"},\"authMethods\":[]}");
    } else {
        answer(id, "{}");
    }
}

int main(void) {
    size_t room = 2 * READ_BYTES, held = 0;
    char *buffer = get(NULL, room);
    for (;;) {
        if (room - held < READ_BYTES) buffer = get(buffer, room *= 2);
        ssize_t got = read(0, buffer + held, room - held);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return 0;
        /* What was held has no line feed: only the news are searched. */
        size_t begin = 0, search = held;
        held += (size_t)got;
        char *end;
        while ((end = memchr(buffer + search, '\n', held - search)) != NULL) {
            take((struct text){buffer + begin, (size_t)(end - buffer) - begin});
            begin = search = (size_t)(end - buffer) + 1;
        }
        held -= begin;
        memmove(buffer, buffer + begin, held);
    }
}
