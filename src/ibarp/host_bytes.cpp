#include "host_bytes.hpp"

#include <array>
#include <fstream>
#include <sstream>

namespace ipoib::ibarp {

std::map<std::string, HostBytes> read_host_bytes() {
  std::ifstream file("/proc/self/net/dev");
  std::map<std::string, HostBytes> out;
  for (std::string line; std::getline(file, line);) {
    const auto colon = line.find(':');
    if (colon == std::string::npos) continue;
    constexpr std::size_t kSent = 8;  // the fields before it are about received packets
    std::array<std::uint64_t, kSent + 1> fields{};
    std::istringstream numbers(line.substr(colon + 1));
    for (auto& field : fields) numbers >> field;
    const auto begin = line.find_first_not_of(' ');
    if (numbers) out[line.substr(begin, colon - begin)] = {fields[0], fields[kSent]};
  }
  return out;
}

}  // namespace ipoib::ibarp
