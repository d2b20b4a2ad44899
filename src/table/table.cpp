#include "table/table.hpp"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <utility>

namespace ipoib::table {

namespace {

constexpr std::size_t kGap = 2;

/// The number of characters of a text in UTF-8: bytes that neither continue a character nor belong
/// to the escape sequence of a colour, "ESC[...m".
std::size_t characters(std::string_view text) {
  std::size_t count = 0;
  bool escaped = false;
  for (const char c : text) {
    if (c == '\033') escaped = true;
    if (!escaped && (static_cast<unsigned char>(c) & 0xc0U) != 0x80U) ++count;
    if (c == 'm') escaped = false;
  }
  return count;
}

}  // namespace

Table::Table(std::vector<Column> columns) : columns_(std::move(columns)) {
  for (const Column& column : columns_) widths_.push_back(characters(column.heading));
}

void Table::add(std::vector<std::string> row) {
  assert(row.size() == columns_.size());
  for (std::size_t i = 0; i < row.size(); ++i) {
    widths_[i] = std::max(widths_[i], characters(row[i]));
  }
  rows_.push_back(std::move(row));
}

Table::Selection Table::all() const {
  Selection columns(columns_.size());
  std::iota(columns.begin(), columns.end(), 0U);
  return columns;
}

std::size_t Table::width_of(const Selection& columns) const {
  std::size_t total = 0;
  for (const std::size_t i : columns) total += widths_[i] + kGap;
  return total - std::min(total, kGap);
}

std::size_t Table::width() const { return width_of(all()); }

Table::Selection Table::fitting(std::size_t width) const {
  Selection columns = all();
  while (width_of(columns) > width) {
    auto next = columns.end();
    for (auto at = columns.begin(); at != columns.end(); ++at) {
      const auto order = columns_[*at].omit;
      if (order != 0 && (next == columns.end() || order < columns_[*next].omit)) next = at;
    }
    if (next == columns.end()) break;
    columns.erase(next);
  }
  return columns;
}

void Table::append(std::string& out, const Selection& columns,
                   const std::vector<std::string>& row) const {
  for (const std::size_t i : columns) {
    const std::size_t padding = widths_[i] - characters(row[i]);
    if (i != columns.front()) out.append(kGap, ' ');
    if (columns_[i].align == Align::right) out.append(padding, ' ');
    out += row[i];
    if (columns_[i].align == Align::left && i != columns.back()) out.append(padding, ' ');
  }
  out += '\n';
}

std::string Table::text(std::size_t width) const {
  const Selection columns = fitting(width);
  std::vector<std::string> headings;
  headings.reserve(columns_.size());
  for (const Column& column : columns_) headings.push_back(column.heading);
  std::string out;
  const bool has_headings = std::any_of(headings.begin(), headings.end(),
                                        [](const std::string& each) { return !each.empty(); });
  if (has_headings) append(out, columns, headings);
  for (const auto& row : rows_) append(out, columns, row);
  return out;
}

}  // namespace ipoib::table
