// A client of the SA over libibumad that prints responses in a form that does not depend on the
// subnet.
#pragma once

#include <algorithm>
#include <array>
#include <iostream>
#include <set>
#include <string>
#include <vector>

#include "wire/class_port_info.hpp"
#include "wire/mad.hpp"
#include "wire/mc_member_record.hpp"
#include "wire/path_record.hpp"
#include "wire/service_record.hpp"

namespace ipoib::test {

/// The port, its MAD agent, and names for values that differ between subnets.
class Client {
 public:
  explicit Client(const Gid& peer);

  /// Sends a request and returns the response MAD; empty without a response.
  std::vector<std::uint8_t> exchange(const wire::SaHeader& header, ConstBytes record);

  [[nodiscard]] std::string name(const Gid& value) const;
  [[nodiscard]] std::string name(Lid value) const;
  /// "usual" for the rate of the ports and of the broadcast groups (10 Gb/s).
  [[nodiscard]] std::string rate_name(std::uint8_t code) const;
  [[nodiscard]] const Gid& peer() const { return peer_; }

  Gid gid;
  Lid lid;
  Lid sm_lid;

 private:
  Gid peer_;
  unsigned rate_ = 0;
  int file_ = -1;
  int agent_ = -1;
};

[[nodiscard]] std::string hex(std::uint64_t value);
/// `mask` is the component mask of the request.
[[nodiscard]] std::string describe(const Client& client, const wire::McMemberRecord& record,
                                   std::uint64_t mask);
[[nodiscard]] std::string describe(const Client& client, const wire::PathRecord& record,
                                   std::uint64_t mask);
[[nodiscard]] std::string describe(const Client& client, const wire::ClassPortInfo& record,
                                   std::uint64_t mask);
[[nodiscard]] std::string describe(const Client& client, const wire::ServiceRecord& record,
                                   std::uint64_t mask);

/// Sends a request and prints its name, the status, and the sorted records of the response.
template <class Record>
void request(Client& client, const std::string& name, std::uint8_t method, std::uint16_t attribute,
             std::uint64_t mask, const Record& record, std::uint64_t sm_key = 0) {
  static std::uint64_t transaction = 0;
  wire::SaHeader header;
  header.mad.management_class = wire::mgmt_class::kSubnAdm;
  header.mad.class_version = 2;
  header.mad.method = method;
  header.mad.attribute_id = attribute;
  header.mad.transaction_id = ++transaction;
  header.component_mask = mask;
  header.sm_key = sm_key;
  std::array<std::uint8_t, wire::kSaDataSize> data{};
  record.emit(std::span(data).first(Record::kSize));
  const auto mad = client.exchange(header, data);
  const auto response = wire::SaHeader::parse(mad);
  std::cout << name << ": " << (response ? hex(response->mad.status) : "no response") << '\n';
  if (!response || response->mad.status != 0) return;
  if constexpr (requires { describe(client, record, mask); }) {
    const bool is_table = method == wire::method::kGetTable;
    const std::size_t stride =
        is_table ? std::size_t{response->attribute_offset} * 8 : std::size_t{Record::kSize};
    const std::size_t end = is_table ? mad.size() : wire::kSaHeaderSize + Record::kSize;
    std::set<std::string> lines;
    for (std::size_t at = wire::kSaHeaderSize; stride != 0 && at + stride <= end; at += stride) {
      const auto found = Record::parse(ConstBytes(mad).subspan(at, stride));
      lines.insert(found ? describe(client, *found, mask) : "no record");
    }
    for (const auto& line : lines) std::cout << "    " << line << '\n';
  }
}

/// Sends all requests of sa_path_requests.cpp.
void request_paths(Client& client);

}  // namespace ipoib::test
