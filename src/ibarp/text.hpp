// Numbers and tables for people.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ipoib::cli {

/// "0x0401", with at least `digits` digits.
[[nodiscard]] std::string hexadecimal(std::uint64_t value, int digits);
/// "-" where there is none: of a group before it is joined, and on RoCE.
[[nodiscard]] std::string lid_text(std::uint16_t lid);
/// "0.2s", "35s", "12m", "5h", "3d".
[[nodiscard]] std::string age(std::uint64_t milliseconds);
/// "40 Gb/s", "2.5 Gb/s"; "-" for 0.
[[nodiscard]] std::string rate(std::uint32_t mbps);

/// How many columns there are to write in: COLUMNS, or those of the terminal; a file or a pipe has
/// no end.
[[nodiscard]] std::size_t columns_of_output();

/// Rows of cells under headings, each column as wide as its widest cell, two blanks between them.
class Table {
 public:
  enum class Align : std::uint8_t { left, right };
  struct Column {
    std::string heading;
    Align align = Align::left;
  };

  explicit Table(std::vector<Column> columns);
  /// As many cells as there are columns.
  void add(std::vector<std::string> row);
  [[nodiscard]] std::size_t width() const;
  /// Takes the last column away.
  void drop_last_column();
  [[nodiscard]] std::string text() const;

 private:
  void append(std::string& out, const std::vector<std::string>& row) const;

  std::vector<Column> columns_;
  std::vector<std::size_t> widths_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace ipoib::cli
