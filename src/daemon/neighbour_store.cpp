#include "daemon/neighbour_store.hpp"

#include "ipoib/overloaded.hpp"

namespace ipoib::daemon {

namespace {

bool is_deleted(const control::Filter& filter, const IpAddress& address,
                const StaticNeighbours::To& to) {
  const bool is_pin = std::holds_alternative<Gid>(to);
  return !filter.states.empty() && filter.matches(address, is_pin ? "pinned" : "permanent");
}

}  // namespace

StaticNeighbours::StaticNeighbours(std::span<const control::StaticNeighbour> file,
                                   const std::string& interface) {
  for (const bool is_for_all : {true, false}) {
    for (const auto& entry : file) {
      if (entry.is_for(interface) && entry.interface.empty() == is_for_all) {
        entries_.insert_or_assign(entry.address, entry.to);
      }
    }
  }
}

void StaticNeighbours::on_done(const control::InterfaceRequest& request) {
  std::visit(
      Overloaded{
          [&](const control::SetRequest& r) { entries_.insert_or_assign(r.address, r.hardware); },
          [&](const control::PinRequest& r) { entries_.insert_or_assign(r.address, r.gid); },
          [&](const control::DeleteRequest& r) { entries_.erase(r.address); },
          [&](const control::FlushRequest& r) {
            std::erase_if(entries_, [&](const auto& entry) {
              return is_deleted(r.filter, entry.first, entry.second);
            });
          },
          [](const auto&) {},
      },
      request);
}

std::vector<control::StaticNeighbour> StaticNeighbours::all() const {
  std::vector<control::StaticNeighbour> out;
  out.reserve(entries_.size());
  for (const auto& [address, to] : entries_) out.push_back({address, to, {}});
  return out;
}

StaticNeighbours& NeighbourStore::of(PKey partition, const std::string& interface) {
  return interfaces_.try_emplace(partition, file_, interface).first->second;
}

}  // namespace ipoib::daemon
