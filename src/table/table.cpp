#include "table/table.hpp"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <utility>

namespace ipoib::table {

namespace {

constexpr std::size_t kGap = 2;
constexpr std::size_t kIndent = 4;  ///< of what continues a line, and of cells in a block
/// A column that is broken into lines of fewer characters is hard to read.
constexpr std::size_t kLeastBroken = 20;

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

/// Calls `use` with each word of a text.
template <class Use>
void for_each_word(std::string_view text, Use&& use) {
  while (true) {
    const auto begin = text.find_first_not_of(' ');
    if (begin == std::string_view::npos) return;
    text.remove_prefix(begin);
    const auto word = text.substr(0, text.find(' '));
    use(word);
    text.remove_prefix(word.size());
  }
}

std::size_t longest_word(std::string_view text) {
  std::size_t longest = 0;
  for_each_word(text,
                [&](std::string_view word) { longest = std::max(longest, characters(word)); });
  return longest;
}

/// Appends words to lines of at most `width` columns. `at` is the column where the first word
/// begins; further lines begin with `indent` blanks.
void append_words(std::string& out, std::string_view text, std::size_t at, std::size_t indent,
                  std::size_t width) {
  bool is_first = true;
  for_each_word(text, [&](std::string_view word) {
    const std::size_t size = characters(word);
    if (is_first) {
      is_first = false;
    } else if (at + 1 + size <= width) {
      out += ' ';
      ++at;
    } else {
      out += '\n';
      out.append(indent, ' ');
      at = indent;
    }
    out += word;
    at += size;
  });
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

std::vector<std::string> Table::headings() const {
  std::vector<std::string> out;
  out.reserve(columns_.size());
  for (const Column& column : columns_) out.push_back(column.heading);
  return out;
}

bool Table::can_break_last(const Selection& columns, std::size_t width) const {
  const std::size_t last = columns.back();
  if (columns_[last].align == Align::right) return false;
  const std::size_t left = width_of(columns) - widths_[last];
  std::size_t needed = std::max(kLeastBroken, longest_word(columns_[last].heading));
  for (const auto& row : rows_) needed = std::max(needed, longest_word(row[last]));
  return left + needed <= width;
}

void Table::append(std::string& out, const Selection& columns, const std::vector<std::string>& row,
                   std::size_t width) const {
  const bool is_broken = width_of(columns) > width;
  std::size_t at = 0;
  for (const std::size_t i : columns) {
    const std::size_t padding = widths_[i] - characters(row[i]);
    if (i != columns.front()) out.append(kGap, ' ');
    if (columns_[i].align == Align::right) out.append(padding, ' ');
    if (is_broken && i == columns.back()) {
      append_words(out, row[i], at, at, width);
    } else {
      out += row[i];
    }
    if (columns_[i].align == Align::left && i != columns.back()) out.append(padding, ' ');
    at += widths_[i] + kGap;
  }
  out += '\n';
}

void Table::append_block(std::string& out, const Selection& columns,
                         const std::vector<std::string>& row, std::size_t width) const {
  std::size_t at = 0;
  bool is_first = true;  // of its line
  for (const std::size_t i : columns) {
    if (row[i].empty()) continue;
    const bool is_named = i != columns.front() && !columns_[i].heading.empty();
    const std::string field = is_named ? columns_[i].heading + ' ' + row[i] : row[i];
    const std::size_t size = characters(field);
    if (i == columns.front()) {
      append_words(out, field, 0, kIndent, width);
      at = width;
    } else {
      if (!is_first && at + kGap + size <= width) {
        out.append(kGap, ' ');
        at += kGap;
      } else {
        if (!out.empty() && out.back() != '\n') out += '\n';
        out.append(kIndent, ' ');
        at = kIndent;
      }
      append_words(out, field, at, kIndent + kIndent, width);
      at = size <= width - std::min(width, at) ? at + size : width;
    }
    is_first = false;
  }
  out += '\n';
}

std::string Table::text_of(const Selection& columns, std::size_t width) const {
  const bool fits = width_of(columns) <= width || can_break_last(columns, width);
  const auto names = headings();
  const bool has_headings =
      std::ranges::any_of(names, [](const std::string& each) { return !each.empty(); });
  std::string out;
  if (has_headings && (fits || rows_.empty())) append(out, columns, names, width);
  if (!fits && rows_.empty()) return fold(out, width);
  for (const auto& row : rows_) {
    if (fits) {
      append(out, columns, row, width);
    } else {
      append_block(out, columns, row, width);
    }
  }
  return out;
}

std::string Table::text(std::size_t width) const { return text_of(fitting(width), width); }

std::string Table::wide_text(std::size_t width) const { return text_of(all(), width); }

std::string fold(std::string_view text, std::size_t width) {
  std::string out;
  while (!text.empty()) {
    const auto line = text.substr(0, text.find('\n'));
    if (characters(line) <= width) {
      out += line;
    } else {
      const auto indent = std::min(line.find_first_not_of(' '), line.size());
      out.append(indent, ' ');
      append_words(out, line, indent, indent + kIndent, width);
    }
    text.remove_prefix(line.size());
    if (!text.empty()) {
      out += '\n';
      text.remove_prefix(1);
    }
  }
  return out;
}

}  // namespace ipoib::table
