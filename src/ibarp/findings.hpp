// What check and explain have found out, as text or JSON.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "table/table.hpp"

namespace ipoib::ibarp {

class Client;

enum class Verdict : std::uint8_t { ok, warning, wrong };

struct Finding {
  Verdict verdict = Verdict::ok;
  std::string subject;  ///< what was looked at, in one or two words
  std::string text;     ///< what was found
  std::string remedy;   ///< what to do about it; empty if nothing
};

/// The findings about one interface or address, in the order in which they were made.
class Findings {
 public:
  explicit Findings(std::string about) : about_(std::move(about)) {}

  void ok(std::string subject, std::string text);
  void warn(std::string subject, std::string text, std::string remedy);
  void wrong(std::string subject, std::string text, std::string remedy);

  [[nodiscard]] bool has_wrong() const;
  /// A line for each finding, and one for each remedy; several, if they exceed `width` columns.
  [[nodiscard]] std::string text(std::size_t width = table::kUnlimited) const;
  /// A JSON object on one line, without a newline.
  [[nodiscard]] std::string json() const;

 private:
  std::string about_;
  std::vector<Finding> all_;
};

/// The values of counters by their names.
using Counts = std::map<std::string, std::uint64_t>;

/// What the interface has dropped.
[[nodiscard]] Counts drops_of(const Client& client);
/// "drop_a 1, drop_b 2"; empty if there are none.
[[nodiscard]] std::string text_of(const Counts& drops);

}  // namespace ipoib::ibarp
