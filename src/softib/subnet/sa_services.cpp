#include "softib/subnet/sa_services.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <numeric>

#include "ipoib/fair_share.hpp"

namespace softib::subnet {

namespace {

using ipoib::wire::SaStatus;
using ipoib::wire::ServiceRecord;

/// ServiceID, GID, P_Key, reserved, lease, key, name, data.
constexpr auto kWidths = [] {
  std::array<std::uint16_t, 37> widths{64, 128, 16, 16, 32, 128, 512};
  constexpr std::size_t kData = 7;
  std::fill_n(widths.begin() + kData, 16, std::uint16_t{8});
  std::fill_n(widths.begin() + kData + 16, 8, std::uint16_t{16});
  std::fill_n(widths.begin() + kData + 24, 4, std::uint16_t{32});
  std::fill_n(widths.begin() + kData + 28, 2, std::uint16_t{64});
  return widths;
}();
static_assert(std::accumulate(kWidths.begin(), kWidths.end(), 0U) == 8 * ServiceRecord::kSize);

/// Whether requester and port of a service are in the partition that the request names.
bool is_permitted(const SaRequest& request, const ServiceRecord& service,
                  const SubnetManager& manager) {
  if (!request.has(ServiceRecord::kPKey)) return true;
  if (!find_pkey(request.from.port, service.pkey).is_valid()) return false;
  const Node* const port = manager.node(manager.find(service.gid.guid()));
  return port == nullptr || find_pkey(port->port, service.pkey).is_valid();
}

/// "ServiceKey is not returned to untrusted requesters" (IBA 15.4.1.2).
ServiceRecord visible(const SaRequest& request, const ServiceRecord& record) {
  ServiceRecord out = record;
  if (!request.is_trusted()) out.key = {};
  return out;
}

SaResponse single(const SaRequest& request, const ServiceRecord& record) {
  RecordTable table(ServiceRecord::kSize);
  table.add(visible(request, record));
  return table;
}

}  // namespace

std::vector<SaServices::Service>::iterator SaServices::find(const ServiceRecord& record) {
  return std::ranges::find_if(services_, [&](const Service& one) {
    return one.record.service_id == record.service_id && one.record.gid == record.gid &&
           one.record.pkey == record.pkey;
  });
}

SaResponse SaServices::set(const SaRequest& request, const SubnetManager& manager,
                           ipoib::TimePoint now) {
  auto record = ServiceRecord::parse(request.record);
  if (!record || !is_permitted(request, *record, manager)) return SaStatus::request_invalid;
  if (!request.has(ServiceRecord::kServiceId | ServiceRecord::kGid)) {
    return SaStatus::request_invalid;
  }
  if (!request.has(ServiceRecord::kLease)) record->lease = ServiceRecord::kNoExpiry;
  Service service{*record, request.requester};
  if (record->lease != ServiceRecord::kNoExpiry) {
    service.expires = now + std::chrono::seconds(record->lease);
  }
  const auto held =
      static_cast<std::size_t>(std::ranges::count(services_, request.requester, &Service::charged));
  if (const auto known = find(*record); known != services_.end()) {
    service.charged = known->charged;
    *known = service;
  } else if (!ipoib::has_fair_share_left(held, kMaxServices - services_.size())) {
    return SaStatus::no_resources;
  } else {
    services_.push_back(service);
  }
  return single(request, *record);
}

SaResponse SaServices::remove(const SaRequest& request, const SubnetManager& manager) {
  const auto record = ServiceRecord::parse(request.record);
  if (!record || !is_permitted(request, *record, manager)) return SaStatus::request_invalid;
  const auto known = find(*record);
  if (known == services_.end()) return SaStatus::no_records;
  const ServiceRecord removed = known->record;
  services_.erase(known);
  return single(request, removed);
}

SaResponse SaServices::query(const SaRequest& request) const {
  RecordTable found(ServiceRecord::kSize);
  for (const Service& service : services_) {
    const auto& record = service.record;
    const bool is_hidden =
        record.pkey.is_valid() && !find_pkey(request.from.port, record.pkey).is_valid();
    std::array<std::uint8_t, ServiceRecord::kSize> bytes;
    record.emit(bytes);
    const bool matches =
        components_equal(request.record, bytes, request.header.component_mask, kWidths);
    if (matches && !is_hidden) found.add(visible(request, record));
  }
  return found;
}

ipoib::TimePoint SaServices::next_deadline() const {
  const auto first = std::ranges::min_element(services_, {}, &Service::expires);
  return first == services_.end() ? ipoib::kNever : first->expires;
}

void SaServices::on_time(ipoib::TimePoint now) {
  std::erase_if(services_, [&](const Service& one) { return one.expires <= now; });
}

}  // namespace softib::subnet
