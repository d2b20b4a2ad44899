// The records of net files, before their cables are matched.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "softib/topology/net_file.hpp"

namespace softib::topology {

/// What a port permits: bits of LinkWidthEnabled, LinkSpeedEnabled and LinkSpeedExtEnabled. The
/// defaults are ibsim's.
struct EnabledRates {
  std::uint8_t width = 2;
  std::uint8_t speed = 1;
  std::uint8_t extended_speed = 0;
};

/// Where something stands in a file.
struct Position {
  std::size_t file = 0;  ///< index of its name
  std::size_t line = 0;
  std::size_t column = 0;
};

/// What a port line says of the other end.
struct FarEnd {
  Position at;
  std::string node;  ///< the ID with its module, or the alias
  bool is_alias = false;
  unsigned port = 0;  ///< not of an alias
};

struct NetPort {
  std::optional<FarEnd> far_end;
  bool has_alias = false;
  EnabledRates rates;
};

struct NetNode {
  enum class Kind : std::uint8_t { hca, switch_node, skipped };
  Kind kind = Kind::skipped;
  Position at;
  std::string id;           ///< MODULE#ID, or the ID alone
  bool id_is_name = false;  ///< else the name is derived from description and ID
  std::string description;
  Guid guid;
  unsigned ports = 0;
  std::array<Guid, kMaxHcaPorts> port_guids{};
  EnabledRates rates;  ///< of ports whose line does not say others
  std::map<unsigned, NetPort> port_lines;
};

/// All records of a file and those that it includes.
struct NetRecords {
  std::vector<std::string> files;
  std::vector<NetNode> nodes;
  std::map<std::string, std::size_t, std::less<>> by_id;
  /// MODULE@ALIAS: node and port.
  std::map<std::string, std::pair<std::size_t, unsigned>, std::less<>> aliases;
  std::vector<std::string> remarks;  ///< as of NetFile
  std::size_t more_remarks = 0;

  /// "NAME:LINE:COLUMN: TEXT".
  [[nodiscard]] std::string located(const Position& at, const std::string& text) const;
  void remark(const Position& at, const std::string& text);
};

/// A text of a file in quotes, for messages: short, and with '?' for what is not printable.
[[nodiscard]] std::string shown(std::string_view text);

/// Names the nodes and matches the cables. The error has the position of the record.
[[nodiscard]] ipoib::Result<NetFile> link_records(NetRecords records);

}  // namespace softib::topology
