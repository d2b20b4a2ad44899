#include "softib/core/name.hpp"

#include <algorithm>
#include <cerrno>
#include <string>

#include "softib/core/fabric_types.hpp"

namespace softib {

bool is_valid_name(std::string_view name) {
  if (name.empty() || name.size() > kMaxNodeName) return false;
  if (name.front() == '.' || name.front() == '-') return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
}

ipoib::Error invalid_name(std::string_view of, std::string_view name) {
  return ipoib::Error{EINVAL, "'" + std::string(name) + "' is not a valid " + std::string(of) +
                                  " name (1 to " + std::to_string(kMaxNodeName) +
                                  " letters, digits, '.', '_' and '-'; not '.' or '-' first)"};
}

}  // namespace softib
