// Prints the state of a subnet as tables, whole or by sections.
#pragma once

#include <boost/json/object.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "table/table.hpp"

namespace softib::cli {

/// The width of the brief form, if the output has no lesser one.
inline constexpr std::size_t kBriefWidth = 80;

enum class Section : std::uint8_t { nodes, switches, partitions, groups, counters };
[[nodiscard]] std::optional<Section> parse_section(std::string_view text);

// In the functions below, `subnet` comes from subnetd::subnet_json(), and `width` is that of the
// output in columns.

/// One line for each node, partition and group, in at most kBriefWidth columns. Long names are
/// shortened.
[[nodiscard]] std::string show_brief(const boost::json::object& subnet,
                                     std::size_t width = kBriefWidth);
/// All sections with all columns.
[[nodiscard]] std::string show_wide(const boost::json::object& subnet,
                                    std::size_t width = ipoib::table::kUnlimited);
/// One section with all columns.
[[nodiscard]] std::string show_section(const boost::json::object& subnet, Section section,
                                       std::size_t width = ipoib::table::kUnlimited);
/// The members of the JSON object that belong to a section, and those that describe the subnet.
[[nodiscard]] boost::json::object json_of_section(const boost::json::object& subnet,
                                                  Section section);

}  // namespace softib::cli
