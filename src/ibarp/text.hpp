// Formats numbers and tables.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ipoib::cli {

/// "0x0401", with at least `digits` digits.
[[nodiscard]] std::string hexadecimal(std::uint64_t value, int digits);
/// "-" for 0: there is none before a group is joined, and on RoCE.
[[nodiscard]] std::string lid_text(std::uint16_t lid);
/// "0.2s", "35s", "12m", "5h", "3d".
[[nodiscard]] std::string age(std::uint64_t milliseconds);
/// "40 Gb/s", "2.5 Gb/s"; "-" for 0.
[[nodiscard]] std::string rate(std::uint32_t mbps);

/// Width of the output: COLUMNS, or that of the terminal; unlimited for a file or pipe.
[[nodiscard]] std::size_t columns_of_output();

/// A table with headings and aligned columns, two blanks apart.
class Table {
 public:
  enum class Align : std::uint8_t { left, right };
  struct Column {
    std::string heading;
    Align align = Align::left;
  };

  explicit Table(std::vector<Column> columns);
  /// `row` has one cell for each column.
  void add(std::vector<std::string> row);
  [[nodiscard]] std::size_t width() const;
  void drop_last_column();
  [[nodiscard]] std::string text() const;

 private:
  void append(std::string& out, const std::vector<std::string>& row) const;

  std::vector<Column> columns_;
  std::vector<std::size_t> widths_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace ipoib::cli
