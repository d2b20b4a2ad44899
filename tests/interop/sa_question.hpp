// A client of the SA over libibumad that prints what it is told, in words that do not depend on the
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

namespace ipoib::test {

/// The port, its agent, and the names for what subnets do not have in common.
class Client {
 public:
  explicit Client(const Gid& peer);

  /// One question; the MAD that answers it, empty when none does.
  std::vector<std::uint8_t> ask(const wire::SaHeader& header, ConstBytes record);

  [[nodiscard]] std::string name(const Gid& value) const;
  [[nodiscard]] std::string name(Lid value) const;
  /// 10 Gb/s, the rate of the broadcast groups, may be that of the ports as well.
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
/// `mask` is what was asked for.
[[nodiscard]] std::string describe(const Client& client, const wire::McMemberRecord& record,
                                   std::uint64_t mask);
[[nodiscard]] std::string describe(const Client& client, const wire::PathRecord& record,
                                   std::uint64_t mask);
[[nodiscard]] std::string describe(const Client& client, const wire::ClassPortInfo& record,
                                   std::uint64_t mask);

/// Asks and prints: the name of the question, the status, and the records of the answer in order.
template <class Record>
void question(Client& client, const std::string& what, std::uint8_t how, std::uint16_t about,
              std::uint64_t mask, const Record& record, std::uint64_t sm_key = 0) {
  static std::uint64_t transaction = 0;
  wire::SaHeader header;
  header.mad.management_class = wire::mgmt_class::kSubnAdm;
  header.mad.class_version = 2;
  header.mad.method = how;
  header.mad.attribute_id = about;
  header.mad.transaction_id = ++transaction;
  header.component_mask = mask;
  header.sm_key = sm_key;
  std::array<std::uint8_t, wire::kSaDataSize> data{};
  record.emit(std::span(data).first(Record::kSize));
  const auto mad = client.ask(header, data);
  const auto answer = wire::SaHeader::parse(mad);
  std::cout << what << ": " << (answer ? hex(answer->mad.status) : "no answer") << '\n';
  if (!answer || answer->mad.status != 0) return;
  if constexpr (requires { describe(client, record, mask); }) {
    const bool is_table = how == wire::method::kGetTable;
    const std::size_t stride =
        is_table ? std::size_t{answer->attribute_offset} * 8 : std::size_t{Record::kSize};
    const std::size_t end = is_table ? mad.size() : wire::kSaHeaderSize + Record::kSize;
    std::set<std::string> lines;
    for (std::size_t at = wire::kSaHeaderSize; stride != 0 && at + stride <= end; at += stride) {
      const auto found = Record::parse(ConstBytes(mad).subspan(at, stride));
      lines.insert(found ? describe(client, *found, mask) : "no record");
    }
    for (const auto& line : lines) std::cout << "    " << line << '\n';
  }
}

/// All of sa_path_questions.cpp.
void ask_about_paths(Client& client);

}  // namespace ipoib::test
