/* libibarp from C: compiled as C11, so that its header is one. */
#include "ibarp_in_c.h"

#include <errno.h>
#include <ipoib/ibarp.h>
#include <string.h>
#include <sys/socket.h>

#define EXPECT(what)              \
  do {                            \
    if (!(what)) return __LINE__; \
  } while (0)

struct tally {
  unsigned calls;
  char text[IBARP_TEXT_SIZE];
};

static int on_interface(const char* interface, void* data) {
  struct tally* tally = data;
  if (strcmp(interface, tally->text) == 0) ++tally->calls;
  return 0;
}

static int on_entry(const struct ibarp_entry* entry, void* data) {
  struct tally* tally = data;
  ++tally->calls;
  return entry->size == sizeof(*entry) ? 0 : -1;
}

static int on_group(const struct ibarp_group* group, void* data) {
  struct tally* tally = data;
  ++tally->calls;
  memcpy(tally->text, group->membership, sizeof(group->membership));
  return group->address.family == AF_INET && group->waiting == 3 ? 0 : -1;
}

static int on_counter(const struct ibarp_counter* counter, void* data) {
  struct tally* tally = data;
  if (counter->is_drop) {
    ++tally->calls;
    memcpy(tally->text, counter->name, sizeof(tally->text));
  }
  return 0;
}

static int on_histogram(const struct ibarp_histogram* histogram, void* data) {
  struct tally* tally = data;
  ++tally->calls;
  memcpy(tally->text, histogram->name, sizeof(tally->text));
  return histogram->size == sizeof(*histogram) && histogram->buckets == 2 &&
                 histogram->bounds_ns[1] == 2500000 && histogram->counts[2] == 1 &&
                 histogram->sum_ns == 42
             ? 0
             : -1;
}

static int on_member(const struct ibarp_member* member, void* data) {
  struct tally* tally = data;
  ++tally->calls;
  if (member->join_state == IBARP_FULL_MEMBER && member->port_gid[15] == 7) {
    strcpy(tally->text, "full member");
  }
  return 0;
}

static int on_level(const struct ibarp_log_level* level, void* data) {
  struct tally* tally = data;
  if (strcmp(level->module, "link") == 0) {
    ++tally->calls;
    memcpy(tally->text, level->level, sizeof(level->level));
  }
  return 0;
}

static int on_record(const struct ibarp_trace_record* record, void* data) {
  struct tally* tally = data;
  ++tally->calls;
  memcpy(tally->text, record->keyword, sizeof(tally->text));
  return 0;
}

static int on_delta(const struct ibarp_counter* counter, int64_t delta, void* data) {
  struct tally* tally = data;
  ++tally->calls;
  memcpy(tally->text, counter->name, sizeof(tally->text));
  return delta == 7 ? 0 : -1;
}

static int entries(struct ibarp* handle, const struct ibarp_address* address) {
  struct ibarp_hardware hardware;
  struct ibarp_entry entry;
  struct tally tally = {0};
  uint64_t deleted = 99;
  char text[IBARP_HARDWARE_TEXT];

  EXPECT(ibarp_parse_hardware("0x401@fe80::2:c903:0:1", &hardware) == 0);
  EXPECT(ibarp_set(handle, address, &hardware, IBARP_CHANGE) == -ENOENT);
  EXPECT(strstr(ibarp_error(handle), "10.44.0.2") != NULL);
  EXPECT(ibarp_set(handle, address, &hardware, IBARP_ADD) == 0);
  EXPECT(ibarp_set(handle, address, &hardware, IBARP_ADD) == -EEXIST);
  EXPECT(ibarp_set(handle, address, &hardware, IBARP_REPLACE) == 0);

  entry.size = sizeof(entry);
  EXPECT(ibarp_get(handle, address, &entry) == 0);
  EXPECT((entry.flags & IBARP_HAS_HARDWARE) != 0 && (entry.flags & IBARP_HAS_PATH) == 0);
  EXPECT(entry.address.family == AF_INET);
  EXPECT(memcmp(entry.address.bytes, address->bytes, 4) == 0);
  EXPECT(strcmp(entry.state, "permanent") == 0);
  EXPECT(strcmp(ibarp_format_hardware(&entry.hardware, text),
                "00:00:04:01:fe:80:00:00:00:00:00:00:00:02:c9:03:00:00:00:01") == 0);

  EXPECT(ibarp_list(handle, on_entry, &tally) == 0);
  EXPECT(tally.calls == 1);
  EXPECT(ibarp_flush(handle, &deleted) == 0 && deleted == 0);
  EXPECT(ibarp_flush(handle, NULL) == 0);
  EXPECT(ibarp_delete(handle, address) == 0);
  EXPECT(ibarp_delete(handle, address) == -ENOENT);
  return 0;
}

static int interface_and_daemon(struct ibarp* handle) {
  const uint8_t group[16] = {0};
  const uint8_t unknown[16] = {1};
  struct ibarp_info info;
  struct tally tally = {0};

  info.size = sizeof(info);
  EXPECT(ibarp_get_info(handle, &info) == 0);
  EXPECT(info.pkey == 0xffff && info.hardware.qpn == 0x401 && strcmp(info.state, "up") == 0);
  EXPECT(ibarp_groups(handle, on_group, &tally) == 0);
  EXPECT(tally.calls == 1 && strcmp(tally.text, "full") == 0);
  EXPECT(ibarp_members(handle, group, on_member, &tally) == 0);
  EXPECT(tally.calls == 2 && strcmp(tally.text, "full member") == 0);
  EXPECT(ibarp_members(handle, unknown, on_member, &tally) == -ETIMEDOUT && tally.calls == 2);
  EXPECT(ibarp_members(handle, NULL, on_member, &tally) == -EINVAL);
  EXPECT(ibarp_stats(handle, on_counter, &tally) == 0);
  EXPECT(tally.calls == 3 && strcmp(tally.text, "path_failed") == 0);
  EXPECT(ibarp_set_log_level(handle, "link", "debug") == 0);
  EXPECT(ibarp_set_log_level(handle, "link", "loud") == -EINVAL);
  EXPECT(ibarp_log_levels(handle, on_level, &tally) == 0);
  EXPECT(tally.calls == 4 && strcmp(tally.text, "debug") == 0);
  EXPECT(ibarp_trace(handle, on_record, &tally) == 0);
  EXPECT(tally.calls == 5 && strcmp(tally.text, "turn") == 0);
  EXPECT(ibarp_histograms(handle, on_histogram, &tally) == 0);
  EXPECT(tally.calls == 6 && strcmp(tally.text, "resolution_time") == 0);
  return 0;
}

static int events(struct ibarp* handle) {
  struct ibarp_event event;
  struct tally tally = {0};

  event.size = sizeof event;
  EXPECT(ibarp_next_event(handle, &event, 0) == -ENOTCONN);
  EXPECT(ibarp_subscribe(handle, IBARP_STATS, 100) == 0);
  EXPECT(ibarp_fd(handle) >= 0);
  EXPECT(ibarp_next_event(handle, &event, -1) == 0);
  EXPECT(event.size == sizeof event && event.type == IBARP_STATS && event.entry == NULL);
  EXPECT(ibarp_deltas(handle, on_delta, &tally) == 0);
  EXPECT(tally.calls == 1 && strcmp(tally.text, "packets_sent") == 0);
  ibarp_unsubscribe(handle);
  EXPECT(ibarp_fd(handle) == -ENOTCONN);
  return 0;
}

static int interfaces(struct ibarp* handle) {
  char name[IBARP_NAME_SIZE] = "";

  EXPECT(ibarp_add_interface(handle, 0x8001, NULL, name) == 0);
  EXPECT(strcmp(name, "ib0.8001") == 0);
  EXPECT(ibarp_add_interface(handle, 0x8001, "red", name) == 0 && strcmp(name, "red") == 0);
  EXPECT(ibarp_add_interface(handle, 0x8001, "red", NULL) == 0);
  EXPECT(strcmp(ibarp_warning(handle), "") == 0);
  EXPECT(ibarp_add_interface(handle, 0x8003, NULL, NULL) == 0);
  EXPECT(strcmp(ibarp_warning(handle), "a limited member") == 0);
  EXPECT(ibarp_add_interface(handle, 0x8002, NULL, NULL) == -EEXIST);
  EXPECT(strstr(ibarp_error(handle), "has an interface") != NULL);
  EXPECT(strcmp(ibarp_warning(handle), "") == 0);
  EXPECT(strcmp(ibarp_warning(NULL), "") == 0);
  EXPECT(ibarp_delete_interface(handle) == 0);
  EXPECT(ibarp_delete_interface(handle) == -EBUSY);
  EXPECT(ibarp_delete_interface(NULL) == -EINVAL);
  return 0;
}

int ibarp_in_c(const char* interface) {
  struct ibarp* handle = NULL;
  struct ibarp_address address;
  struct tally tally = {0};
  char text[IBARP_ADDRESS_TEXT];
  int line;

  strncpy(tally.text, interface, sizeof(tally.text) - 1);
  EXPECT(ibarp_interfaces(on_interface, &tally) == 0);
  EXPECT(tally.calls == 1);
  EXPECT(ibarp_parse_address("10.44.0.2", &address) == 0);
  EXPECT(strcmp(ibarp_format_address(&address, text), "10.44.0.2") == 0);

  EXPECT(ibarp_open(interface, &handle) == 0);
  ibarp_set_timeout(handle, 10000);
  line = entries(handle, &address);
  if (line == 0) line = interface_and_daemon(handle);
  if (line == 0) line = events(handle);
  if (line == 0) line = interfaces(handle);
  ibarp_close(handle);
  return line;
}
