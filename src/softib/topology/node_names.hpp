// Names of nodes from what files call them.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "softib/core/fabric_types.hpp"

namespace softib::topology {

/// The GUID in a node ID as ibnetdiscover writes it: S-, H-, R- or ?- and 16 hexadecimal digits.
[[nodiscard]] std::optional<Guid> guid_of_node_id(std::string_view id);

/// A valid name of the text's letters and digits, with '-' for what a name cannot have; empty if
/// nothing is left.
[[nodiscard]] std::string name_like(std::string_view text);

/// At most 63 printable characters: others become blanks, as with ibnetdiscover, quotes become '.
[[nodiscard]] std::string clean_description(std::string_view text);

/// Gives nodes different names. Owns the names that are taken.
class NodeNames {
 public:
  /// Takes exactly this name. Returns false if it is taken.
  bool take(const std::string& name) { return taken_.insert(name).second; }
  /// Takes the name, or the name with the first free number from 2 behind it.
  std::string take_like(const std::string& name);

 private:
  std::set<std::string, std::less<>> taken_;
  std::map<std::string, unsigned, std::less<>> last_numbers_;
};

}  // namespace softib::topology
