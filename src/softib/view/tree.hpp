// The files that programs find of the HCAs of a process, as the kernel would show them: below
// /dev/infiniband the devices, below /sys/class/infiniband their attributes, and so on.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "softib/core/hca_ports.hpp"
#include "softib/fabric/port_counters.hpp"
#include "softib/subnet/subnet_types.hpp"

namespace softib::view {

/// An HCA of the process, and the device that shows it.
struct ShownHca {
  /// Device softib<number>, uverbs<number> and umad<number>; that of its second port has another.
  std::size_t number = 0;
  NodeIndex index = 0;  ///< of its first port
  subnet::Node node;    ///< its first port
  HcaPorts ports;
  std::array<fabric::PortCounterValues, kMaxHcaPorts> counters{};  ///< by port, from port 1
};

struct Entry {
  enum class Kind : std::uint8_t { file, folder, device };
  Kind kind = Kind::file;
  std::string text{};  ///< of a file, with a newline at its end
  /// Of a device: its numbers, major and minor. The kernel assigns those of the rdma_cm device: 0.
  unsigned major = 0;
  unsigned minor = 0;
};

class Tree {
 public:
  /// The files of a process with these HCAs.
  [[nodiscard]] static Tree of(std::span<const ShownHca> hcas);

  /// The path without "." and "..", and without slashes that have no meaning, if it is absolute and
  /// the view answers for it, whether or not the tree has such an entry; nullopt for all others,
  /// which are the kernel's.
  [[nodiscard]] static std::optional<std::string> own_path(std::string_view path);

  /// The entry with a path of own_path(); null if there is none.
  [[nodiscard]] const Entry* find(const std::string& path) const;
  /// The names in a folder and what they are, sorted.
  [[nodiscard]] std::vector<std::pair<std::string, Entry::Kind>> list(
      const std::string& folder) const;

 private:
  void add(const std::string& path, Entry entry);
  void add_file(const std::string& path, std::string text);
  void add_hca(const ShownHca& hca);
  void add_port(const std::string& folder, const ShownHca& hca, unsigned number);
  void add_umad(const std::string& device, unsigned number, unsigned port);

  std::map<std::string, Entry> entries_;
};

}  // namespace softib::view
