#include "daemon/interfaces/neighbour_store.hpp"

#include "ipoib/overloaded.hpp"

namespace ipoib::daemon {

namespace {

bool is_deleted(const control::Filter& filter, const IpAddress& address,
                const StaticNeighbours::To& to) {
  const bool is_pin = std::holds_alternative<Gid>(to);
  return !filter.states.empty() && filter.matches(address, is_pin ? "pinned" : "permanent");
}

/// Lines for the interface take precedence.
std::map<IpAddress, StaticNeighbours::To> lines_for(
    const std::string& interface, std::span<const control::StaticNeighbour> file) {
  std::map<IpAddress, StaticNeighbours::To> out;
  for (const auto& entry : control::neighbours_for(interface, file)) {
    out.insert_or_assign(entry.address, entry.to);
  }
  return out;
}

}  // namespace

StaticNeighbours::StaticNeighbours(std::span<const control::StaticNeighbour> file,
                                   const std::string& interface)
    : interface_(interface), entries_(lines_for(interface, file)) {}

void StaticNeighbours::on_done(const control::InterfaceRequest& request) {
  std::visit(Overloaded{
                 [&](const control::SetRequest& r) { set(r.address, r.hardware); },
                 [&](const control::PinRequest& r) { set(r.address, r.gid); },
                 [&](const control::DeleteRequest& r) {
                   entries_.erase(r.address);
                   by_operator_.erase(r.address);
                 },
                 [&](const control::FlushRequest& r) {
                   std::erase_if(entries_, [&](const auto& entry) {
                     return is_deleted(r.filter, entry.first, entry.second);
                   });
                   std::erase_if(by_operator_, [this](const auto& address) {
                     return !entries_.contains(address);
                   });
                 },
                 [](const auto&) {},
             },
             request);
}

void StaticNeighbours::set(const IpAddress& address, const To& to) {
  entries_.insert_or_assign(address, to);
  by_operator_.insert(address);
}

void StaticNeighbours::add(std::span<const control::StaticNeighbour> others) {
  for (const auto& each : others) {
    if (entries_.try_emplace(each.address, each.to).second) by_operator_.insert(each.address);
  }
}

std::vector<control::StaticNeighbour> StaticNeighbours::by_operator() const {
  std::vector<control::StaticNeighbour> out;
  out.reserve(by_operator_.size());
  for (const auto& address : by_operator_) out.push_back({address, entries_.at(address), {}});
  return out;
}

std::vector<control::StaticNeighbour> StaticNeighbours::all() const {
  std::vector<control::StaticNeighbour> out;
  out.reserve(entries_.size());
  for (const auto& [address, to] : entries_) out.push_back({address, to, {}});
  return out;
}

NeighbourChanges StaticNeighbours::replace_file(std::span<const control::StaticNeighbour> before,
                                                std::span<const control::StaticNeighbour> after) {
  const auto old_lines = lines_for(interface_, before);
  const auto new_lines = lines_for(interface_, after);
  NeighbourChanges changes;
  for (const auto& [address, to] : old_lines) {
    const auto entry = entries_.find(address);
    const bool is_as_before = entry != entries_.end() && entry->second == to;
    if (new_lines.contains(address) || !is_as_before) continue;
    changes.emplace(address, std::nullopt);
    entries_.erase(entry);
    by_operator_.erase(address);
  }
  for (const auto& [address, to] : new_lines) {
    const auto old = old_lines.find(address);
    if (old != old_lines.end() && old->second == to) continue;
    entries_.insert_or_assign(address, to);
    by_operator_.erase(address);
    changes.emplace(address, to);
  }
  return changes;
}

std::map<PKey, NeighbourChanges> NeighbourStore::replace_file(
    std::vector<control::StaticNeighbour> file) {
  std::map<PKey, NeighbourChanges> out;
  for (auto& [partition, neighbours] : interfaces_) {
    auto changes = neighbours->replace_file(file_, file);
    if (!changes.empty()) out.emplace(partition, std::move(changes));
  }
  file_ = std::move(file);
  return out;
}

std::shared_ptr<StaticNeighbours> NeighbourStore::of(PKey partition, const std::string& interface) {
  auto& entries = interfaces_[partition];
  if (entries == nullptr) entries = std::make_shared<StaticNeighbours>(file_, interface);
  return entries;
}

}  // namespace ipoib::daemon
