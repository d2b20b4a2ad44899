// Tables of text for the command line tools: aligned columns, and the width of the terminal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace ipoib::table {

inline constexpr std::size_t kUnlimited = std::numeric_limits<std::size_t>::max();

/// The width of standard output in columns: COLUMNS, or the width of the terminal; kUnlimited for a
/// file or pipe.
[[nodiscard]] std::size_t output_width();

enum class Align : std::uint8_t { left, right };

struct Column {
  std::string heading;  ///< if all are empty, the table has no line of headings
  Align align = Align::left;
  /// If the table is too wide, columns are omitted in the order of these numbers; those with 0
  /// never.
  std::uint8_t omit = 0;
};

/// Breaks lines that are longer than `width` at blanks; what continues a line is indented four more
/// than the line. Words that are longer stay.
[[nodiscard]] std::string fold(std::string_view text, std::size_t width);

/// Rows of cells. Each column is as wide as its widest cell, and two blanks separate columns.
class Table {
 public:
  explicit Table(std::vector<Column> columns);

  /// `row` has one cell for each column, in UTF-8, which may have colours.
  void add(std::vector<std::string> row);
  /// Whether there are no rows.
  [[nodiscard]] bool empty() const { return rows_.empty(); }
  /// The width of the longest line, with all columns.
  [[nodiscard]] std::size_t width() const;
  /// Returns lines of at most `width` columns. A table that is too wide omits columns; then its
  /// last column is broken at blanks; and if that is not enough, each row becomes a block of lines,
  /// with the headings before the cells. Only a cell without blanks can exceed the width.
  [[nodiscard]] std::string text(std::size_t width = kUnlimited) const;
  /// The same without omitting columns.
  [[nodiscard]] std::string wide_text(std::size_t width = kUnlimited) const;

 private:
  using Selection = std::vector<std::size_t>;  ///< indices of columns

  [[nodiscard]] Selection all() const;
  [[nodiscard]] std::size_t width_of(const Selection& columns) const;
  [[nodiscard]] Selection fitting(std::size_t width) const;
  [[nodiscard]] std::vector<std::string> headings() const;
  /// The lines with these columns, which are at most `width` wide.
  [[nodiscard]] std::string text_of(const Selection& columns, std::size_t width) const;
  /// Whether the last column, broken at blanks, fits beside the others.
  [[nodiscard]] bool can_break_last(const Selection& columns, std::size_t width) const;
  void append(std::string& out, const Selection& columns, const std::vector<std::string>& row,
              std::size_t width) const;
  void append_block(std::string& out, const Selection& columns, const std::vector<std::string>& row,
                    std::size_t width) const;

  std::vector<Column> columns_;
  std::vector<std::size_t> widths_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace ipoib::table
