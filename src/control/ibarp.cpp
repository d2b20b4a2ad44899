// libibarp: the functions of ibarp.h. Each sends one request and passes the reply on. A request
// determines the type of its reply, so std::get cannot fail.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>

#include "control/ibarp_handle.hpp"
#include "control/neighbour_file.hpp"
#include "ipoib/overloaded.hpp"

using namespace ipoib;           // NOLINT: the C functions are in no namespace
using namespace ipoib::control;  // NOLINT

namespace {

/// The error of the last ibarp_open() of this thread that has failed.
thread_local std::string open_error;

/// Sends a request and calls `use` with the reply, which is a T.
template <class T, class Use>
int ask(ibarp* handle, const Request& request, Use use) {
  const Response response = handle->connection.ask(request);
  if (response.has_error()) return refuse(handle, response.error());
  return use(std::get<T>(*response));
}

/// Calls `each` with each value as a C structure, until it returns nonzero.
template <class T, class Function>
int each_of(const std::vector<T>& values, Function* each, void* data) {
  for (const T& value : values) {
    const auto out = to_c(value);
    if (const int stop = each(&out, data); stop != 0) return stop;
  }
  return 0;
}

int one_address(ibarp* handle, const ibarp_address* address, IpAddress& out) {
  const auto value = address == nullptr ? std::nullopt : from_c(*address);
  if (!value) return invalid(handle, "address family must be AF_INET or AF_INET6");
  out = *value;
  return 0;
}

/// Requests one page after the other. Calls a function with each, until it returns something else
/// than 0, which is then the result.
template <class Page, class PageRequest, class Function>
int ask_all(ibarp* handle, PageRequest request, Function use) {
  for (bool more = true; more;) {
    const int stop = ask<Page>(handle, InterfaceRequest(request), [&](const Page& page) {
      more = page.next.has_value();
      request.cursor = page.next.value_or(0);
      return use(page);
    });
    if (stop != 0) return stop;
  }
  return 0;
}

int start_resolving(ibarp* handle, const ibarp_address* address, int milliseconds) {
  handle->resolving.reset();
  ResolveRequest request;
  if (const int bad = one_address(handle, address, request.address); bad != 0) return bad;
  request.timeout = std::chrono::milliseconds(milliseconds);
  if (milliseconds < 0 || request.timeout > ResolveRequest::kMaxTimeout) {
    return invalid(handle, "the time-out is 0 to 30000 ms");
  }
  auto begun = std::make_unique<ibarp::Resolving>(
      ibarp::Resolving{Connection(handle->connection.interface()), InterfaceRequest(request)});
  begun->connection.set_timeout(handle->connection.timeout());
  const auto sent = begun->connection.send_request(begun->request);
  if (sent.has_error()) return refuse(handle, sent.error());
  handle->resolving = std::move(begun);
  return 0;
}

/// Waits for the response; `if_late` is the error if there is none in time.
int finish_resolving(ibarp* handle, ibarp_path* path, std::chrono::milliseconds timeout,
                     int if_late) {
  if (handle->resolving == nullptr) {
    return refuse(handle,
                  Error{ENOTCONN, "nothing is being resolved: call ibarp_resolve_start() before"});
  }
  const Response response =
      handle->resolving->connection.await_response(handle->resolving->request, timeout);
  const bool is_late = response.has_error() && response.error().code == EAGAIN;
  if (is_late && if_late == EAGAIN) return refuse(handle, response.error());
  handle->resolving.reset();
  if (is_late) return refuse(handle, Error{if_late, response.error().message});
  if (response.has_error()) return refuse(handle, response.error());
  return give(to_c(std::get<Resolution>(*response)), path)
             ? 0
             : invalid(handle, "path->size is not set");
}

/// Sends a request that creates an entry or a pin.
template <class Creation>
int set(ibarp* handle, Creation request, ibarp_set_mode mode) {
  switch (mode) {
    case IBARP_ADD:
      request.mode = SetRequest::Mode::add;
      break;
    case IBARP_CHANGE:
      request.mode = SetRequest::Mode::change;
      break;
    case IBARP_REPLACE:
      request.mode = SetRequest::Mode::replace;
      break;
    default:
      return invalid(handle, "no such mode");
  }
  return ask<Done>(handle, InterfaceRequest(request), [](const Done&) { return 0; });
}

/// Whether the filter selects the entry; "pinned" selects pinned addresses in all states.
bool selects(const Filter& filter, const Entry& entry) {
  return filter.matches(entry.address, entry.state) ||
         (entry.pinned && filter.matches(entry.address, "pinned"));
}

struct ThreadLine {
  std::string thread;
  TraceLine line;
};

/// Reads all records that each ring had when it was first read: a busy thread may write faster than
/// we read.
Result<std::vector<ThreadLine>> read_trace(Connection& connection) {
  std::vector<ThreadLine> out;
  std::uint32_t rings = 1;
  for (TraceRequest request; request.ring < rings; request = {request.ring + 1, 0}) {
    std::optional<std::uint64_t> end;
    do {
      Response response = connection.ask(request);
      // A program without traced threads has no ring 0.
      if (response.has_error() && response.error().code == EINVAL && request.ring == 0) return out;
      if (response.has_error()) return response.error();
      auto& page = std::get<TracePage>(*response);
      if (!end) end = page.end;
      rings = page.rings;
      request.from = std::max(page.next, request.from + 1);
      for (TraceLine& line : page.lines) {
        if (line.sequence < *end) out.push_back({page.thread, std::move(line)});
      }
    } while (request.from < *end);
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const auto& a, const auto& b) { return a.line.when < b.line.when; });
  return out;
}

}  // namespace

extern "C" {

int ibarp_interfaces(ibarp_interface_fn* each, void* data) {
  return guarded([&] {
    auto names = served_interfaces();
    if (!names) return -names.error().code;
    for (const auto& [name, has_carrier] : tun_interfaces()) names->insert(name);
    for (const std::string& name : *names) {
      if (const int stop = each(name.c_str(), data); stop != 0) return stop;
    }
    return 0;
  });
}

int ibarp_open(const char* interface, ibarp** handle) {
  if (handle == nullptr) return -EINVAL;
  *handle = nullptr;
  open_error.clear();
  if (interface == nullptr) return -EINVAL;
  return guarded([&] {
    auto made = std::make_unique<ibarp>(ibarp{Connection(interface), {}, {}, {}, {}, {}});
    if (const auto opened = made->connection.open(); opened.has_error()) {
      open_error = opened.error().message;
      return -opened.error().code;
    }
    *handle = made.release();
    return 0;
  });
}

void ibarp_close(ibarp* handle) { delete handle; }

void ibarp_set_timeout(ibarp* handle, int milliseconds) {
  handle->connection.set_timeout(std::chrono::milliseconds(milliseconds));
}

const char* ibarp_error(const ibarp* handle) {
  return handle == nullptr ? open_error.c_str() : handle->error.c_str();
}

const char* ibarp_warning(const ibarp* handle) {
  return handle == nullptr ? "" : handle->warning.c_str();
}

int ibarp_get(ibarp* handle, const ibarp_address* address, ibarp_entry* entry) {
  return with(handle, [&] {
    GetRequest request;
    if (const int bad = one_address(handle, address, request.address); bad != 0) return bad;
    return ask<Entry>(handle, InterfaceRequest(request), [&](const Entry& found) {
      return give(to_c(found), entry) ? 0 : invalid(handle, "entry->size is not set");
    });
  });
}

int ibarp_resolve(ibarp* handle, const ibarp_address* address, int milliseconds, ibarp_path* path) {
  return with(handle, [&] {
    if (const int bad = start_resolving(handle, address, milliseconds); bad != 0) return bad;
    // The daemon keeps the time-out, but its response may take a while.
    const auto timeout = handle->connection.timeout();
    const bool is_limited = timeout >= std::chrono::milliseconds::zero();
    return finish_resolving(
        handle, path, is_limited ? timeout + std::chrono::milliseconds(milliseconds) : timeout,
        ETIMEDOUT);
  });
}

int ibarp_resolve_start(ibarp* handle, const ibarp_address* address, int milliseconds) {
  return with(handle, [&] {
    const int bad = start_resolving(handle, address, milliseconds);
    return bad != 0 ? bad : handle->resolving->connection.descriptor();
  });
}

int ibarp_resolve_finish(ibarp* handle, ibarp_path* path) {
  return with(handle, [&] {
    return finish_resolving(handle, path, std::chrono::milliseconds::zero(), EAGAIN);
  });
}

int ibarp_set(ibarp* handle, const ibarp_address* address, const ibarp_hardware* hardware,
              ibarp_set_mode mode) {
  return with(handle, [&] {
    SetRequest request;
    if (const int bad = one_address(handle, address, request.address); bad != 0) return bad;
    const auto to = hardware == nullptr ? std::nullopt : from_c(*hardware);
    if (!to) return invalid(handle, "a queue pair number has 24 bits");
    request.hardware = *to;
    return set(handle, request, mode);
  });
}

int ibarp_pin(ibarp* handle, const ibarp_address* address, const std::uint8_t gid[16],
              ibarp_set_mode mode) {
  return with(handle, [&] {
    PinRequest request;
    if (const int bad = one_address(handle, address, request.address); bad != 0) return bad;
    if (gid == nullptr) return invalid(handle, "no GID");
    Gid::Bytes bytes;
    std::copy_n(gid, bytes.size(), bytes.begin());
    request.gid = Gid(bytes);
    return set(handle, request, mode);
  });
}

int ibarp_load_neighbours(ibarp* handle, const char* path, std::uint64_t* entries) {
  return with(handle, [&] {
    if (path == nullptr) return invalid(handle, "no file");
    const auto read = read_neighbours(path);
    if (read.has_error()) return refuse(handle, read.error());
    std::uint64_t count = 0;
    std::optional<Error> first;
    for (const StaticNeighbour& entry : neighbours_for(handle->connection.interface(), *read)) {
      const Request request = std::visit(
          Overloaded{
              [&](const HwAddress& to) {
                return InterfaceRequest(SetRequest{SetRequest::Mode::replace, entry.address, to});
              },
              [&](const Gid& to) {
                return InterfaceRequest(PinRequest{SetRequest::Mode::replace, entry.address, to});
              }},
          entry.to);
      const int result = ask<Done>(handle, request, [](const Done&) { return 0; });
      if (result == 0) {
        ++count;
      } else if (!first) {
        first = Error(-result, to_string(entry.address) + ": " + handle->error);
      }
    }
    if (entries != nullptr) *entries = count;
    return first ? refuse(handle, *first) : 0;
  });
}

int ibarp_delete(ibarp* handle, const ibarp_address* address) {
  return with(handle, [&] {
    DeleteRequest request;
    if (const int bad = one_address(handle, address, request.address); bad != 0) return bad;
    return ask<Done>(handle, InterfaceRequest(request), [](const Done&) { return 0; });
  });
}

int ibarp_list(ibarp* handle, ibarp_entry_fn* each, void* data) {
  return ibarp_list_matching(handle, nullptr, each, data);
}

int ibarp_list_matching(ibarp* handle, const ibarp_filter* filter, ibarp_entry_fn* each,
                        void* data) {
  return with(handle, [&] {
    const auto wanted = from_c(filter);
    if (wanted.has_error()) return refuse(handle, wanted.error());
    return ask_all<EntryPage>(handle, ListRequest(), [&](const EntryPage& page) {
      for (const Entry& entry : page.entries) {
        if (!selects(*wanted, entry)) continue;
        const ibarp_entry out = to_c(entry);
        if (const int result = each(&out, data); result != 0) return result;
      }
      return 0;
    });
  });
}

int ibarp_flush(ibarp* handle, std::uint64_t* deleted) {
  return ibarp_flush_matching(handle, nullptr, deleted);
}

int ibarp_flush_matching(ibarp* handle, const ibarp_filter* filter, std::uint64_t* deleted) {
  return with(handle, [&] {
    const auto wanted = from_c(filter);
    if (wanted.has_error()) return refuse(handle, wanted.error());
    return ask<Flushed>(handle, InterfaceRequest(FlushRequest{*wanted}),
                        [&](const Flushed& flushed) {
                          if (deleted != nullptr) *deleted = flushed.entries;
                          return 0;
                        });
  });
}

int ibarp_get_info(ibarp* handle, ibarp_info* info) {
  return with(handle, [&] {
    return ask<InterfaceInfo>(handle, InterfaceRequest(InfoRequest{}), [&](const auto& found) {
      handle->info = found;
      return give(to_c(handle->info), info) ? 0 : invalid(handle, "info->size is not set");
    });
  });
}

int ibarp_ports(ibarp* handle, ibarp_port_fn* each, void* data) {
  return with(handle, [&] {
    return ask<InterfaceInfo>(handle, InterfaceRequest(InfoRequest{}),
                              [&](const auto& found) { return each_of(found.ports, each, data); });
  });
}

int ibarp_failover(ibarp* handle, const char* device, std::uint32_t port) {
  return with(handle, [&] {
    if (device != nullptr && (port == 0 || port > UINT8_MAX))
      return invalid(handle, "no such port");
    FailoverRequest request;
    if (device != nullptr) request = {device, static_cast<std::uint8_t>(port)};
    return ask<Done>(handle, InterfaceRequest(request), [](const Done&) { return 0; });
  });
}

int ibarp_stations(ibarp* handle, ibarp_station_fn* each, void* data) {
  return with(handle, [&] {
    return ask_all<StationPage>(handle, StationsRequest(), [&](const StationPage& page) {
      return each_of(page.stations, each, data);
    });
  });
}

int ibarp_groups(ibarp* handle, ibarp_group_fn* each, void* data) {
  return with(handle, [&] {
    return ask<InterfaceInfo>(handle, InterfaceRequest(InfoRequest{}),
                              [&](const auto& found) { return each_of(found.groups, each, data); });
  });
}

int ibarp_members(ibarp* handle, const std::uint8_t mgid[16], ibarp_member_fn* each, void* data) {
  return with(handle, [&] {
    if (mgid == nullptr) return invalid(handle, "no group");
    Gid::Bytes bytes;
    std::copy_n(mgid, bytes.size(), bytes.begin());
    const MembersRequest request{Gid(bytes)};
    return ask<std::vector<Member>>(
        handle, request, [&](const auto& members) { return each_of(members, each, data); });
  });
}

int ibarp_stats(ibarp* handle, ibarp_counter_fn* each, void* data) {
  return with(handle, [&] {
    return ask<std::vector<Counter>>(handle, InterfaceRequest(StatsRequest{}),
                                     [&](const auto& all) { return each_of(all, each, data); });
  });
}

int ibarp_histograms(ibarp* handle, ibarp_histogram_fn* each, void* data) {
  return with(handle, [&] {
    return ask<std::vector<Histogram>>(handle, InterfaceRequest(HistogramsRequest{}),
                                       [&](const auto& all) { return each_of(all, each, data); });
  });
}

int ibarp_log_levels(ibarp* handle, ibarp_log_fn* each, void* data) {
  return with(handle, [&] {
    return ask<std::vector<ModuleLevel>>(handle, LogRequest{},
                                         [&](const auto& all) { return each_of(all, each, data); });
  });
}

int ibarp_set_log_level(ibarp* handle, const char* module, const char* level) {
  return with(handle, [&] {
    if (module == nullptr || level == nullptr) return invalid(handle, "no module or no level");
    return ask<std::vector<ModuleLevel>>(handle, LogRequest{{{module, level}}},
                                         [](const auto&) { return 0; });
  });
}

int ibarp_add_interface(ibarp* handle, std::uint16_t pkey, const char* interface,
                        char added[IBARP_NAME_SIZE]) {
  return with(handle, [&] {
    const AddInterfaceRequest request{PKey(pkey), interface == nullptr ? "" : interface};
    return ask<AddedInterface>(handle, request, [&](const AddedInterface& made) {
      if (added != nullptr) copy_text(made.name, added, IBARP_NAME_SIZE);
      handle->warning = made.warning;
      return 0;
    });
  });
}

int ibarp_delete_interface(ibarp* handle) {
  return with(handle, [&] {
    return ask<Done>(handle, DeleteInterfaceRequest{}, [](const Done&) { return 0; });
  });
}

int ibarp_trace(ibarp* handle, ibarp_trace_fn* each, void* data) {
  return with(handle, [&] {
    const auto lines = read_trace(handle->connection);
    if (lines.has_error()) return refuse(handle, lines.error());
    for (const auto& [thread, line] : *lines) {
      const ibarp_trace_record record = to_c(thread, line);
      if (const int stop = each(&record, data); stop != 0) return stop;
    }
    return 0;
  });
}

}  // extern "C"
