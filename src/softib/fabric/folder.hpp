// Where a subnet lives in the file system, and the rules for names.
//
//   $SOFTIB_DIR/<subnet>/            0700: the one gate; what is inside is open to who gets in
//       fabric  control  lock
//       node/<i>/<place>             socket of the process in a place of node i
//       node/<i>/<place>.lock        held by that process
//       node/<i>/agents              byte-range locks: which MADs an agent of the node has taken
//       node/<i>/issm                pipe: read by whoever says that he is the SM there
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ipoib/file_descriptor.hpp"
#include "ipoib/result.hpp"
#include "softib/core/fabric_types.hpp"

namespace softib::fabric {

inline constexpr const char* kDirectoryVariable = "SOFTIB_DIR";
inline constexpr const char* kSubnetVariable = "SOFTIB_SUBNET";
inline constexpr const char* kHcaVariable = "SOFTIB_HCA";
inline constexpr const char* kCaptureVariable = "SOFTIB_CAPTURE";
inline constexpr const char* kDefaultSubnet = "default";
/// What verbs and umad call the one device of a process.
inline constexpr const char* kDeviceName = "softib0";

/// Names of subnets and HCAs: 1 to kMaxNodeName of A-Z a-z 0-9 . _ -, and no dot or dash in front.
[[nodiscard]] bool is_valid_name(std::string_view name);

/// An HCA as a program is told which: NAME, or NAME:PORT.
struct HcaName {
  std::string name;
  std::uint8_t port = 0;  ///< by which it is on the subnet; 0: not said
  [[nodiscard]] static ipoib::Result<HcaName> parse(std::string_view text);
};

/// An absolute path: SOFTIB_DIR; else /run/softib for root, $XDG_RUNTIME_DIR/softib for others. An
/// error when there is none of these.
[[nodiscard]] ipoib::Result<std::string> softib_directory();

/// An octet of the fabric file is the gate between processes that take places, who hold it together
/// for that moment, and the subnet process, which has it alone while it takes folders away.
inline constexpr std::int64_t kGateOctet = 0;

/// Names in the folder of a node.
inline constexpr const char* kAgentsName = "agents";
inline constexpr const char* kIssmName = "issm";
[[nodiscard]] std::string place_name(std::uint32_t place);
[[nodiscard]] std::string place_lock_name(std::uint32_t place);

/// The folder of one subnet: paths, and the making of what has to be made.
class SubnetFolder {
 public:
  /// By name below softib_directory(). It need not exist.
  [[nodiscard]] static ipoib::Result<SubnetFolder> of(std::string_view subnet);
  /// SOFTIB_SUBNET, or kDefaultSubnet.
  [[nodiscard]] static ipoib::Result<SubnetFolder> from_environment();
  explicit SubnetFolder(std::string path) : path_(std::move(path)) {}

  [[nodiscard]] const std::string& path() const { return path_; }
  /// The last component of the path.
  [[nodiscard]] std::string name() const;
  [[nodiscard]] std::string fabric() const { return path_ + "/fabric"; }
  [[nodiscard]] std::string control() const { return path_ + "/control"; }
  [[nodiscard]] std::string lock() const { return path_ + "/lock"; }
  [[nodiscard]] std::string node(NodeIndex node) const;
  [[nodiscard]] std::string place(NodeIndex node, std::uint32_t place) const;
  [[nodiscard]] std::string issm(NodeIndex node) const;

  /// The folder itself, and that of a node, for the calls of shared_file.hpp.
  [[nodiscard]] ipoib::Result<ipoib::FileDescriptor> open() const;
  [[nodiscard]] ipoib::Result<ipoib::FileDescriptor> open_node(NodeIndex node) const;

  /// For the subnet process: makes the folder and its parents; one that is there is fine.
  [[nodiscard]] ipoib::Result<void> create() const;
  /// For the subnet process, before it publishes the node in the fabric file.
  [[nodiscard]] ipoib::Result<void> create_node(NodeIndex node) const;
  /// For the subnet process, after the node has left the fabric file.
  void remove_node(NodeIndex node) const;
  /// For the subnet process at its end, when no node is left in it. What is not ours stays, and the
  /// folder with it.
  void remove() const;
  /// Whether a living subnet process holds the lock.
  [[nodiscard]] bool is_running() const;

 private:
  std::string path_;
};

}  // namespace softib::fabric
