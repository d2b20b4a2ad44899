/*
 * libibarp: get, set, delete and list the neighbour entries of IP-over-InfiniBand interfaces run by
 * ipoibd, in C. See ibarp(3).
 *
 * All functions that return int return 0 on success and a negative errno value on failure, unless
 * stated otherwise; ibarp_error() then returns the reason as text. The important values:
 *   -ENOENT      no such entry            -EPERM     not allowed to change things
 *   -EEXIST      there is one already     -EINVAL    invalid argument, or refused by the daemon
 *   -ENOSPC      too many interfaces      -EBUSY     too many clients; the last interface
 *   -ENODEV      no ipoibd serves this interface in this network namespace
 *   -ESRCH       the interface exists, but its ipoibd is not running or has its folder elsewhere
 *   -ENXIO       ipoibd waits for its RDMA device, which has failed or was removed
 *   -EACCES      no permission to use the interface's socket, not even to read
 *   -ETIMEDOUT   no response in time      -EPIPE     the daemon has closed the connection
 *   -EPROTO      invalid response         -EAGAIN    no event in time
 *   -ENOTCONN    no subscription; nothing is being resolved
 * After an error of the last two lines the next call connects again: a handle outlives the daemon.
 *
 * Threads: a handle may be used by one thread at a time; different handles are independent. No
 * function raises a signal or keeps a pointer to an argument. File descriptors are close-on-exec.
 *
 * Structures begin with their size. The caller sets it to the size of its structure; the library
 * fills in the part that both versions have and sets the size to that.
 */
#ifndef IPOIB_IBARP_H
#define IPOIB_IBARP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define IBARP_API __attribute__((visibility("default")))
#else
#define IBARP_API
#endif

#define IBARP_HARDWARE_SIZE 20
#define IBARP_HARDWARE_TEXT 60 /* "00:00:04:01:fe:80:...", with the final 0 */
#define IBARP_ADDRESS_TEXT 46  /* the longest IPv6 address, with the final 0 */
#define IBARP_NAME_SIZE 32     /* names of interfaces, states, modules, threads, with the final 0 */
#define IBARP_TEXT_SIZE 128    /* longer texts, with the final 0 */

/* A connection to the ipoibd of one interface. */
struct ibarp;

/* An IP address in network order; an IPv4 address uses the first four bytes. */
struct ibarp_address {
  int family; /* AF_INET or AF_INET6 */
  uint8_t bytes[16];
};

/* A link-layer address, RFC 4391, 9.1.1. */
struct ibarp_hardware {
  uint8_t flags;
  uint32_t qpn; /* 24 bits */
  uint8_t gid[16];
};

#define IBARP_HAS_HARDWARE 0x1u /* hardware */
#define IBARP_HAS_PATH 0x2u     /* dlid, sl, path_mtu, rate_mbps */
#define IBARP_IS_PINNED 0x4u    /* the operator has pinned it to hardware.gid */
#define IBARP_HAS_MAC 0x8u      /* mac */

struct ibarp_entry {
  size_t size;
  uint32_t flags; /* which of the members below are valid */
  struct ibarp_address address;
  struct ibarp_hardware hardware;
  char state[IBARP_NAME_SIZE]; /* "reachable", "permanent", ...; "pinned": no entry yet */
  uint16_t dlid;
  uint8_t sl;
  uint32_t path_mtu;   /* bytes of InfiniBand payload */
  uint32_t rate_mbps;  /* 0: unknown */
  uint64_t idle_ms;    /* since a packet last used it */
  uint32_t references; /* to its address handle, by the path and posted sends */
  uint32_t waiting;    /* frames parked until it is resolved */
  uint64_t uses;       /* packets of the host to it; a large packet is one */
  uint8_t mac[6];      /* under which the host knows it; only of an Ethernet interface */
};

/* The path to the port of a neighbour. */
struct ibarp_path {
  size_t size;
  struct ibarp_hardware hardware; /* of the neighbour, with the GID of its port */
  uint16_t dlid;                  /* 0: RoCE */
  uint8_t sl;
  uint32_t mtu;           /* bytes of InfiniBand payload */
  uint32_t rate_mbps;     /* 0: unknown */
  uint16_t pkey;          /* of the interface */
  uint8_t source_gid[16]; /* of the interface's port, where the path begins */
  uint16_t source_lid;    /* 0: RoCE */
};

/* Selects entries that meet all of its conditions. */
struct ibarp_filter {
  size_t size;
  int family;                   /* AF_INET or AF_INET6; 0: both */
  struct ibarp_address prefix;  /* family 0: any address */
  uint32_t prefix_length;       /* bits of the prefix */
  char states[IBARP_TEXT_SIZE]; /* "stale" or "stale,failed"; empty: any state */
};

struct ibarp_info {
  size_t size;
  char interface[IBARP_NAME_SIZE];
  char device[IBARP_TEXT_SIZE]; /* RDMA device */
  uint32_t port;
  uint16_t pkey;
  uint16_t lid;
  uint32_t qkey;                  /* 0 if unknown, or for those who may only read */
  struct ibarp_hardware hardware; /* its own link-layer address */
  uint32_t mtu;                   /* bytes of an IP packet; 0: unknown yet */
  char state[IBARP_NAME_SIZE];    /* "up" when it can send, "no_device" without RDMA device */
  const char* waiting_for;        /* what the bring-up waits for; may be empty; valid until the next
                                     ibarp_get_info() or ibarp_close() with this handle */
  char version[IBARP_NAME_SIZE];  /* of the daemon */
  uint32_t pid;                   /* of the daemon */
  int admin_up;                   /* 0: the interface is administratively down */
  uint16_t sm_lid;                /* of the subnet manager; 0: none, or RoCE */
  char membership[IBARP_NAME_SIZE]; /* of the partition: "full" or "limited"; empty: unknown */
  uint32_t host_mtu;                /* of the network interface; 0: unknown */
  uint32_t port_mtu;        /* bytes of the payload that the port's link carries; 0: unknown */
  uint32_t port_rate_mbps;  /* of the port's link; 0: unknown */
  uint32_t group_rate_mbps; /* of the broadcast group; 0: unknown */
};

/* One of the two ports of an interface with a backup port. */
struct ibarp_port {
  size_t size;
  char device[IBARP_TEXT_SIZE]; /* RDMA device */
  uint32_t port;
  char role[IBARP_NAME_SIZE];  /* "primary" or "backup" */
  int is_active;               /* it serves the interface */
  char state[IBARP_NAME_SIZE]; /* of the link on it; "up" when it can serve the interface */
  const char* waiting_for;     /* what its bring-up waits for; may be empty */
  uint8_t gid[16];
  uint16_t lid;
  uint16_t sm_lid; /* of the subnet manager; 0: none, or RoCE */
};

/* An IP address of a station: a virtual machine or container behind an Ethernet interface. */
struct ibarp_station {
  size_t size;
  struct ibarp_address address;
  uint8_t mac[6];
  char state[IBARP_NAME_SIZE]; /* "reachable", "probing", "checking", ... */
  int is_served;               /* the interface answers for it on the fabric */
  uint64_t idle_ms;            /* since its last frame */
};

struct ibarp_group {
  size_t size;
  uint8_t mgid[16];
  uint16_t mlid;
  char membership[IBARP_NAME_SIZE]; /* "full", "routed", "send-only", "joining", ... */
  struct ibarp_address address;     /* of the IP group; family 0 if unknown */
  uint32_t waiting;                 /* frames parked until it is joined */
};

/* Bits of join_state, as in an MCMemberRecord (IBA 15.2.5.17). */
#define IBARP_FULL_MEMBER 0x1u
#define IBARP_NON_MEMBER 0x2u
#define IBARP_SEND_ONLY_NON_MEMBER 0x4u
#define IBARP_SEND_ONLY_FULL_MEMBER 0x8u

struct ibarp_member {
  size_t size;
  uint8_t port_gid[16];
  uint32_t join_state;
};

struct ibarp_counter {
  size_t size;
  char name[IBARP_TEXT_SIZE];
  uint64_t value;
  int is_drop;  /* counts dropped packets, for the reason that the name gives */
  int is_gauge; /* a present number, which may also become smaller */
};

/* Durations, counted in buckets. */
struct ibarp_histogram {
  size_t size;
  char name[IBARP_TEXT_SIZE]; /* "resolution_time", see ibarp(8) */
  uint32_t buckets;           /* that have an upper bound */
  const uint64_t* bounds_ns;  /* their upper bounds, inclusive, ascending */
  const uint64_t* counts; /* buckets + 1 numbers; the last one counts what is above all bounds */
  uint64_t sum_ns;        /* of all durations */
};

struct ibarp_log_level {
  size_t size;
  char module[IBARP_NAME_SIZE];
  char level[IBARP_NAME_SIZE];
};

struct ibarp_trace_record {
  size_t size;
  char thread[IBARP_NAME_SIZE];
  char keyword[IBARP_TEXT_SIZE];
  int64_t when_ns; /* CLOCK_MONOTONIC */
  uint64_t first;
  uint64_t second;
};

/* A packet of an interface's queue pair. */
struct ibarp_packet {
  size_t size;
  int64_t when_ns;      /* CLOCK_REALTIME */
  int is_received;      /* 0: sent */
  size_t length;        /* of `bytes` */
  const uint8_t* bytes; /* from LRH to padding, without CRCs; see ibarp(3) */
  uint64_t lost;        /* packets before it that were left out, since the reader was too slow */
};

/* What to subscribe to, and the type of an event. */
#define IBARP_NEIGHBOURS 0x1u
#define IBARP_LINK 0x2u
#define IBARP_GROUPS 0x4u
#define IBARP_STATS 0x8u
#define IBARP_LOST 0x10u     /* only the type of an event: some are missing here */
#define IBARP_TAKEOVER 0x20u /* likewise: another ipoibd serves the interface from now on */
#define IBARP_STATIONS 0x40u

/* Its pointers are NULL unless stated otherwise, and valid until the next ibarp_next_event(),
 * ibarp_subscribe(), ibarp_unsubscribe() or ibarp_close() with the handle. */
struct ibarp_event {
  size_t size;
  uint32_t type;                       /* one of the above; skip unknown ones */
  char change[IBARP_NAME_SIZE];        /* of a neighbour: "new", "changed", "deleted"; of a group:
                                          "joining", "joined", "failed", "left"; of a station: "appeared",
                                          "left", "moved", "moved_out", "duplicate" */
  char why[IBARP_TEXT_SIZE];           /* for people; may be empty */
  const struct ibarp_entry* entry;     /* IBARP_NEIGHBOURS; of a deleted one, as it was */
  const struct ibarp_info* info;       /* IBARP_LINK */
  const char* changed;                 /* IBARP_LINK: what has changed, "state,mtu"; see ibarp(3) */
  const struct ibarp_group* group;     /* IBARP_GROUPS */
  uint64_t lost;                       /* IBARP_LOST: the number of events that are missing */
  uint32_t interval_ms;                /* IBARP_STATS: since the last one, measured */
  const struct ibarp_station* station; /* IBARP_STATIONS; "gone" if the daemon has forgotten it */
};

/* Callbacks are called from within the function that they are passed to. Their arguments are valid
 * until they return. If one returns a value other than 0, it is not called again and the function
 * returns that value. Callbacks may use the handle. */
typedef int ibarp_interface_fn(const char* interface, void* data);
typedef int ibarp_entry_fn(const struct ibarp_entry* entry, void* data);
typedef int ibarp_port_fn(const struct ibarp_port* port, void* data);
typedef int ibarp_station_fn(const struct ibarp_station* station, void* data);
typedef int ibarp_group_fn(const struct ibarp_group* group, void* data);
typedef int ibarp_member_fn(const struct ibarp_member* member, void* data);
typedef int ibarp_counter_fn(const struct ibarp_counter* counter, void* data);
typedef int ibarp_histogram_fn(const struct ibarp_histogram* histogram, void* data);
typedef int ibarp_log_fn(const struct ibarp_log_level* level, void* data);
typedef int ibarp_delta_fn(const struct ibarp_counter* counter, int64_t delta, void* data);
typedef int ibarp_trace_fn(const struct ibarp_trace_record* record, void* data);

/* Calls `each` for each ipoibd interface in this network namespace, sorted by name. Includes those
 * whose daemon has died. */
IBARP_API int ibarp_interfaces(ibarp_interface_fn* each, void* data);

/* Connects to the ipoibd of that interface. *handle is NULL on failure. */
IBARP_API int ibarp_open(const char* interface, struct ibarp** handle);
/* NULL is allowed. */
IBARP_API void ibarp_close(struct ibarp* handle);
/* Sets how long to wait for the daemon. The default is 5000 ms; negative: no limit. */
IBARP_API void ibarp_set_timeout(struct ibarp* handle, int milliseconds);
/* Why the last call on this handle failed; never NULL; valid until the next call. With NULL, why
 * the last ibarp_open() of this thread failed. */
IBARP_API const char* ibarp_error(const struct ibarp* handle);
/* What the last call on this handle warns of although it succeeded, such as a partition that the
 * port is not in; never NULL, "" if there is nothing; valid until the next call. */
IBARP_API const char* ibarp_warning(const struct ibarp* handle);
/* Text for a negative errno value of this library, if there is no handle; never NULL. */
IBARP_API const char* ibarp_strerror(int error);

/* Fills in *entry; the caller sets entry->size. */
IBARP_API int ibarp_get(struct ibarp* handle, const struct ibarp_address* address,
                        struct ibarp_entry* entry);
/* Finds the path to a neighbour, which is resolved by ARP or Neighbour Discovery and by the subnet
 * administrator if the cache does not know it. Fills in *path; the caller sets path->size. Waits
 * for at most so many milliseconds, 0 to 30000: -ETIMEDOUT. -ENETUNREACH: the address is not on the
 * interface's link by its routes; -EHOSTUNREACH: it does not respond, or there is no path to its
 * port; -EINVAL: no neighbour can have the address, such as one of the host; -EBUSY: the daemon
 * resolves too many; -EOPNOTSUPP: it is too old for this. */
IBARP_API int ibarp_resolve(struct ibarp* handle, const struct ibarp_address* address,
                            int milliseconds, struct ibarp_path* path);
/* The same in two steps. The first one sends the request and returns a descriptor that is readable
 * when there may be a response, for poll(2); the library keeps it. A later call ends that of
 * before. The second one does not wait: -EAGAIN if there is no response yet, -ENOTCONN if nothing
 * is being resolved. */
IBARP_API int ibarp_resolve_start(struct ibarp* handle, const struct ibarp_address* address,
                                  int milliseconds);
IBARP_API int ibarp_resolve_finish(struct ibarp* handle, struct ibarp_path* path);
/* Sets a permanent entry. Add fails if there is an entry, change if there is none. */
enum ibarp_set_mode { IBARP_ADD = 0, IBARP_CHANGE = 1, IBARP_REPLACE = 2 };
IBARP_API int ibarp_set(struct ibarp* handle, const struct ibarp_address* address,
                        const struct ibarp_hardware* hardware, enum ibarp_set_mode mode);
/* Pins an address to a GID: ARP and Neighbour Discovery may give it no other one. The QPN is learnt
 * as usual. Removes an entry with another GID. A pin counts as an entry for the mode. */
IBARP_API int ibarp_pin(struct ibarp* handle, const struct ibarp_address* address,
                        const uint8_t gid[16], enum ibarp_set_mode mode);
/* Sets the entries and pins of a file, see ipoibd(8), that are for the handle's interface; stores
 * their number in *entries unless it is NULL. -EINVAL with "FILE:LINE: reason" as the error, and
 * nothing set, if the file is not valid. */
IBARP_API int ibarp_load_neighbours(struct ibarp* handle, const char* path, uint64_t* entries);
/* Deletes an entry and its pin. */
IBARP_API int ibarp_delete(struct ibarp* handle, const struct ibarp_address* address);
/* Calls `each` for each entry, in no particular order, using constant memory. Entries that are
 * added or deleted meanwhile may be missing or not. */
IBARP_API int ibarp_list(struct ibarp* handle, ibarp_entry_fn* each, void* data);
/* The same for the entries that the filter selects; NULL: all. */
IBARP_API int ibarp_list_matching(struct ibarp* handle, const struct ibarp_filter* filter,
                                  ibarp_entry_fn* each, void* data);
/* Deletes all entries except permanent ones, but no pins; stores their number in *deleted unless it
 * is NULL. */
IBARP_API int ibarp_flush(struct ibarp* handle, uint64_t* deleted);
/* The same for the entries that the filter selects; permanent ones only if it names their state,
 * pins only if it names "pinned". */
IBARP_API int ibarp_flush_matching(struct ibarp* handle, const struct ibarp_filter* filter,
                                   uint64_t* deleted);

/* Fills in *info; the caller sets info->size. */
IBARP_API int ibarp_get_info(struct ibarp* handle, struct ibarp_info* info);
/* Calls `each` for the ports of an interface with a backup port, the primary one first; for none if
 * it has no backup port. */
IBARP_API int ibarp_ports(struct ibarp* handle, ibarp_port_fn* each, void* data);
/* Moves the interface to one of its ports; with NULL as the device, to the one that does not serve
 * it now. -EOPNOTSUPP: it has no backup port; -ENODEV: it has no such port; -ENETDOWN: the link on
 * that port is not up. */
IBARP_API int ibarp_failover(struct ibarp* handle, const char* device, uint32_t port);
/* In no particular order. -EOPNOTSUPP: not an Ethernet interface that has stations, or the daemon
 * is older than 0.2. */
IBARP_API int ibarp_stations(struct ibarp* handle, ibarp_station_fn* each, void* data);
IBARP_API int ibarp_groups(struct ibarp* handle, ibarp_group_fn* each, void* data);
/* Calls `each` for each port that is a member of the group, including the interface's own,
 * according to the subnet administrator. */
IBARP_API int ibarp_members(struct ibarp* handle, const uint8_t mgid[16], ibarp_member_fn* each,
                            void* data);
IBARP_API int ibarp_stats(struct ibarp* handle, ibarp_counter_fn* each, void* data);
/* -EOPNOTSUPP if the daemon is older than 0.2. */
IBARP_API int ibarp_histograms(struct ibarp* handle, ibarp_histogram_fn* each, void* data);
IBARP_API int ibarp_log_levels(struct ibarp* handle, ibarp_log_fn* each, void* data);
/* The module "all" stands for all modules. */
IBARP_API int ibarp_set_log_level(struct ibarp* handle, const char* module, const char* level);
/* Adds an interface for another partition on the port of the handle's interface; `interface` is its
 * name, NULL for the usual one ("ib0.8001"). Stores the name in `added` unless that is NULL. The
 * interface waits for the partition if the port is not in it, and ibarp_warning() says so. */
IBARP_API int ibarp_add_interface(struct ibarp* handle, uint16_t pkey, const char* interface,
                                  char added[IBARP_NAME_SIZE]);
/* Deletes the handle's interface. Returns when its groups were left and the interface has gone. */
IBARP_API int ibarp_delete_interface(struct ibarp* handle);
/* Calls `each` for each trace record of the daemon's threads, in order of time. */
IBARP_API int ibarp_trace(struct ibarp* handle, ibarp_trace_fn* each, void* data);

/* Subscribes to events: `topics` is a sum of IBARP_NEIGHBOURS, IBARP_LINK, IBARP_GROUPS,
 * IBARP_STATIONS and IBARP_STATS. Counters come each `interval_ms`, 100 to 3600000; 0: 1000. The
 * handle can be used for other calls, too. A later subscription replaces this one. -EBUSY: too many
 * subscriptions.
 *
 * Get what there is after subscribing, and nothing is missed:
 *   struct ibarp_event event;
 *   event.size = sizeof event;
 *   ibarp_subscribe(handle, IBARP_NEIGHBOURS, 0);
 *   ibarp_list(handle, print, NULL);
 *   while (ibarp_next_event(handle, &event, -1) == 0) {
 *     if (event.type == IBARP_NEIGHBOURS) print(event.entry, NULL);
 *     if (event.type == IBARP_LOST) ibarp_list(handle, print, NULL);
 *     event.size = sizeof event;
 *   }
 */
IBARP_API int ibarp_subscribe(struct ibarp* handle, uint32_t topics, uint32_t interval_ms);
/* Ends the subscription, if there is one. */
IBARP_API void ibarp_unsubscribe(struct ibarp* handle);
/* A descriptor that is readable when there may be an event, for poll(2); the library keeps it.
 * After that call ibarp_next_event() until -EAGAIN, since it buffers. -ENOTCONN without a
 * subscription. */
IBARP_API int ibarp_fd(const struct ibarp* handle);
/* Fills in the next event; the caller sets event->size. Waits for so many milliseconds at most;
 * negative: without limit. -EAGAIN if there is none in time. Any other error but -EINVAL, as -EPIPE
 * when the daemon has ended, ends the subscription. */
IBARP_API int ibarp_next_event(struct ibarp* handle, struct ibarp_event* event, int milliseconds);
/* Calls `each` for each counter that has changed, if the last event was IBARP_STATS. */
IBARP_API int ibarp_deltas(struct ibarp* handle, ibarp_delta_fn* each, void* data);

/* Captures the packets that the interface's queue pair sends and receives from now on; with a
 * neighbour, only those from and to it, and ARP and Neighbour Discovery about its address. A later
 * capture of the handle ends this one. The daemon never waits for the reader: what does not fit
 * into the queue between them is left out, and counted. -EACCES: the user may not make changes;
 * -EBUSY: too many captures; -EOPNOTSUPP: the daemon is too old for it. */
IBARP_API int ibarp_capture(struct ibarp* handle, const struct ibarp_address* neighbour);
/* Ends the capture, if there is one. */
IBARP_API void ibarp_capture_end(struct ibarp* handle);
/* A descriptor that is readable when there may be a packet, for poll(2); the library keeps it.
 * After that call ibarp_next_packet() until -EAGAIN. -ENOTCONN without a capture. */
IBARP_API int ibarp_capture_fd(const struct ibarp* handle);
/* Fills in the next packet; the caller sets packet->size. Its bytes are valid until the next call
 * for the capture. Waits for so many milliseconds at most; negative: without limit. -EAGAIN if
 * there is none in time. Any other error but -EINVAL, as -EPIPE when the daemon has ended, ends the
 * capture. */
IBARP_API int ibarp_next_packet(struct ibarp* handle, struct ibarp_packet* packet,
                                int milliseconds);

/* Parse and format addresses. A link-layer address is 20 bytes in hexadecimal with colons, or the
 * short form QPN@GID, "0x401@fe80::2:c903:0:1". -EINVAL for anything else. */
IBARP_API int ibarp_parse_address(const char* text, struct ibarp_address* address);
/* Parses an address or a prefix, "10.0.0.0/24"; an address has its full length. */
IBARP_API int ibarp_parse_prefix(const char* text, struct ibarp_address* prefix, uint32_t* length);
IBARP_API int ibarp_parse_hardware(const char* text, struct ibarp_hardware* hardware);
IBARP_API const char* ibarp_format_address(const struct ibarp_address* address,
                                           char text[IBARP_ADDRESS_TEXT]);
IBARP_API const char* ibarp_format_hardware(const struct ibarp_hardware* hardware,
                                            char text[IBARP_HARDWARE_TEXT]);

#ifdef __cplusplus
}
#endif

#endif
