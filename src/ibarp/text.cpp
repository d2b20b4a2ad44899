#include "text.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string_view>
#include <utility>

namespace ipoib::cli {

namespace {

constexpr std::size_t kGap = 2;

std::string tenths(std::uint64_t value) {
  std::string out = std::to_string(value / 10);
  if (value % 10 != 0) out += "." + std::to_string(value % 10);
  return out;
}

}  // namespace

std::string lid_text(std::uint16_t lid) { return lid != 0 ? hexadecimal(lid, 4) : "-"; }

std::string hexadecimal(std::uint64_t value, int digits) {
  std::array<char, 24> text{};
  const int length = std::snprintf(text.data(), text.size(), "0x%0*llx", digits,
                                   static_cast<unsigned long long>(value));
  return {text.data(), static_cast<std::size_t>(length)};
}

std::string age(std::uint64_t milliseconds) {
  constexpr std::uint64_t kMinute = 60;
  constexpr std::uint64_t kHour = 60 * kMinute;
  constexpr std::uint64_t kDay = 24 * kHour;
  const std::uint64_t seconds = milliseconds / 1000;
  if (seconds < 10) return tenths(milliseconds / 100) + "s";
  if (seconds < 2 * kMinute) return std::to_string(seconds) + "s";
  if (seconds < 2 * kHour) return std::to_string(seconds / kMinute) + "m";
  if (seconds < 2 * kDay) return std::to_string(seconds / kHour) + "h";
  return std::to_string(seconds / kDay) + "d";
}

std::string rate(std::uint32_t mbps) { return mbps == 0 ? "-" : tenths(mbps / 100) + " Gb/s"; }

std::size_t columns_of_output() {
  if (const char* const text = std::getenv("COLUMNS"); text != nullptr) {
    const std::string_view digits(text);
    std::size_t columns = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), columns);
    if (columns > 0) return columns;
  }
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return std::numeric_limits<std::size_t>::max();
}

Table::Table(std::vector<Column> columns) : columns_(std::move(columns)) {
  for (const Column& column : columns_) widths_.push_back(column.heading.size());
}

void Table::add(std::vector<std::string> row) {
  assert(row.size() == columns_.size());
  for (std::size_t i = 0; i < row.size(); ++i) widths_[i] = std::max(widths_[i], row[i].size());
  rows_.push_back(std::move(row));
}

std::size_t Table::width() const {
  std::size_t total = 0;
  for (const std::size_t width : widths_) total += width + kGap;
  return total - std::min(total, kGap);
}

void Table::drop_last_column() {
  columns_.pop_back();
  widths_.pop_back();
  for (auto& row : rows_) row.pop_back();
}

void Table::append(std::string& out, const std::vector<std::string>& row) const {
  for (std::size_t i = 0; i < row.size(); ++i) {
    const std::size_t padding = widths_[i] - row[i].size();
    if (i > 0) out.append(kGap, ' ');
    if (columns_[i].align == Align::right) out.append(padding, ' ');
    out += row[i];
    if (columns_[i].align == Align::left && i + 1 < row.size()) out.append(padding, ' ');
  }
  out += '\n';
}

std::string Table::text() const {
  std::vector<std::string> headings;
  headings.reserve(columns_.size());
  for (const Column& column : columns_) headings.push_back(column.heading);
  std::string out;
  append(out, headings);
  for (const auto& row : rows_) append(out, row);
  return out;
}

}  // namespace ipoib::cli
