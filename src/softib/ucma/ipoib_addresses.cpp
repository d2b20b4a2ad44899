#include "softib/ucma/ipoib_addresses.hpp"

#include <ifaddrs.h>
#include <sys/socket.h>

#include <algorithm>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "ipoib/monotonic_clock.hpp"
#include "ipoib/source_towards.hpp"
#include "softib/rdma_cm/address.hpp"
#include "softib/rdma_cm/socket_addresses.hpp"
#include "softib/transport/all_signals_blocked.hpp"
#include "softib/ucma/ibarp_library.hpp"

namespace softib::ucma {

using ipoib::TimePoint;
using std::chrono::milliseconds;

namespace {

using Handle = std::unique_ptr<ibarp, decltype(&ibarp_close)>;

Handle open(const IbarpLibrary& library, const std::string& interface) {
  ibarp* handle = nullptr;
  (void)library.open(interface.c_str(), &handle);
  return {handle, library.close};
}

/// The GID in a structure of libibarp.
Gid gid_of(const std::uint8_t (&bytes)[Gid::kSize]) {
  Gid::Bytes copy;
  std::ranges::copy(bytes, copy.begin());
  return Gid(copy);
}

ibarp_address to_c(const IpAddress& address) {
  ibarp_address out{};
  out.family = family(address) == IpFamily::v4 ? AF_INET : AF_INET6;
  std::visit([&](const auto& one) { std::ranges::copy(one.bytes(), out.bytes); }, address);
  return out;
}

std::optional<IpAddress> ip_of(const sockaddr* address, std::size_t size) {
  const auto bytes = ipoib::ConstBytes(reinterpret_cast<const std::uint8_t*>(address), size);
  const auto read = rdma_cm::read_address(bytes);
  const auto* const ip = read ? std::get_if<rdma_cm::IpEndpoint>(&*read) : nullptr;
  return ip != nullptr ? std::optional(ip->address) : std::nullopt;
}

/// The network interfaces that have an address.
std::vector<std::string> interfaces_with(const IpAddress& address) {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> list(all, ::freeifaddrs);
  std::vector<std::string> names;
  for (const auto* each = all; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr) continue;
    if (ip_of(each->ifa_addr, rdma_cm::address_size(each->ifa_addr->sa_family)) == address) {
      names.emplace_back(each->ifa_name);
    }
  }
  return names;
}

/// The interfaces of ipoibd. Those with the source address come first, since the kernel would most
/// likely use them.
std::vector<std::string> interfaces_of_ipoibd(const IbarpLibrary& library,
                                              const IpAddress& source) {
  std::vector<std::string> names;
  const auto add = [](const char* name, void* to) {
    static_cast<std::vector<std::string>*>(to)->emplace_back(name);
    return 0;
  };
  (void)library.interfaces(add, &names);
  const auto likely = interfaces_with(source);
  std::ranges::stable_partition(
      names, [&](const auto& name) { return std::ranges::count(likely, name) != 0; });
  return names;
}

/// Tries all interfaces once. Those that do not lead to the address say so at once, unless they are
/// Ethernet interfaces, whose routes ipoibd does not know.
std::optional<IpoibAddresses::Neighbour> resolve_once(const IpAddress& address,
                                                      milliseconds timeout) {
  if (const auto own = IpoibAddresses::local(address)) {
    return IpoibAddresses::Neighbour{own->gid, *own, address};
  }
  const auto* const library = IbarpLibrary::get();
  const auto source = library != nullptr ? ipoib::source_towards(address) : std::nullopt;
  if (!source) return std::nullopt;
  constexpr milliseconds kMost{30'000};
  const auto wait = static_cast<int>(std::min(timeout, kMost).count());
  for (const auto& interface : interfaces_of_ipoibd(*library, *source)) {
    const Handle handle = open(*library, interface);
    const ibarp_address wanted = to_c(address);
    ibarp_path path{};
    path.size = sizeof path;
    if (!handle || library->resolve(handle.get(), &wanted, wait, &path) != 0) continue;
    return IpoibAddresses::Neighbour{
        gid_of(path.hardware.gid), {gid_of(path.source_gid), PKey(path.pkey)}, *source};
  }
  return std::nullopt;
}

}  // namespace

std::optional<IpoibAddresses::Local> IpoibAddresses::local(const IpAddress& address) {
  const auto names = interfaces_with(address);
  const auto* const library = names.empty() ? nullptr : IbarpLibrary::get();
  if (library == nullptr) return std::nullopt;
  for (const auto& name : names) {
    const Handle handle = open(*library, name);
    if (!handle) continue;
    library->set_timeout(handle.get(), kInfoTimeout.count());
    ibarp_info info{};
    info.size = sizeof info;
    if (library->get_info(handle.get(), &info) != 0) continue;
    return Local{gid_of(info.hardware.gid), PKey(info.pkey)};
  }
  return std::nullopt;
}

void IpoibAddresses::resolve(const IpAddress& address, TimePoint until) {
  const std::lock_guard lock(mutex_);
  const auto [known, is_new] = deadlines_.try_emplace(address, until);
  known->second = std::max(known->second, until);
  if (!is_new) return;
  waiting_.push_back(address);
  if (threads_ == kMaxThreads) return;
  const transport::AllSignalsBlocked blocked;
  try {
    std::thread([this] { work(); }).detach();
    ++threads_;
  } catch (const std::system_error&) {
    // The threads that run take the address. If there is none, it is not found in time.
    if (threads_ > 0) return;
    waiting_.clear();
    deadlines_.clear();
  }
}

/// The next address to resolve; with nullopt the calling thread ends.
std::optional<IpAddress> IpoibAddresses::next() {
  const std::lock_guard lock(mutex_);
  if (waiting_.empty()) {
    --threads_;
    return std::nullopt;
  }
  const IpAddress address = waiting_.front();
  waiting_.pop_front();
  return address;
}

TimePoint IpoibAddresses::deadline_of(const IpAddress& address) {
  const std::lock_guard lock(mutex_);
  return deadlines_.at(address);
}

void IpoibAddresses::work() {
  while (const auto address = next()) {
    std::optional<Neighbour> found;
    for (auto now = ipoib::monotonic_now(); !found; now = ipoib::monotonic_now()) {
      const auto left = std::chrono::ceil<milliseconds>(deadline_of(*address) - now);
      if (left <= milliseconds::zero()) break;
      found = resolve_once(*address, left);
      if (!found) std::this_thread::sleep_for(std::min(left, kRetry));
    }
    {
      const std::lock_guard lock(mutex_);
      deadlines_.erase(*address);
    }
    if (found) on_found_(*address, *found);
  }
}

}  // namespace softib::ucma
