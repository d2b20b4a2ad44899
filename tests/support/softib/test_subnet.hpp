// A subnet without a subnet process: a fabric file with nodes in it.
#pragma once

#include <filesystem>
#include <string>
#include <system_error>

#include "softib/endpoint/endpoint.hpp"
#include "softib/fabric/fabric.hpp"
#include "temporary_folder.hpp"

namespace softib::test {

/// Node 0 has LID 1 and is the SM; "host1" is node 1 with LID 2, and so on. All ports are active.
class TestSubnet {
 public:
  explicit TestSubnet(NodeIndex hosts = 2);

  [[nodiscard]] const fabric::SubnetFolder& folder() const { return folder_; }
  [[nodiscard]] fabric::FabricWriter& fabric() { return fabric_; }
  [[nodiscard]] static Lid lid(NodeIndex node) { return Lid(static_cast<std::uint16_t>(node + 1)); }
  [[nodiscard]] std::unique_ptr<endpoint::Endpoint> attach(NodeIndex node) const;
  /// Makes this process one on an HCA of the subnet, as `softib run` does.
  void enter(const char* hca) const;
  void set_port_state(NodeIndex node, PortState state);
  /// Makes a node the second port of the HCA of another one; before processes attach.
  void join_ports(NodeIndex first, NodeIndex second);
  /// Makes the HCA fail, or restores it, without waking its processes.
  void set_failed(NodeIndex node, bool failed);
  /// Sets the faults of a node's link, without waking its processes.
  void set_faults(NodeIndex node, const LinkFaults& faults);
  /// Sets what the port of the switch at a node checks, or the faults of its cable; wakes nobody.
  void set_filter(NodeIndex node, const subnet::PartitionFilter& filter);
  void set_cable_faults(NodeIndex node, const subnet::CableFaults& faults);
  [[nodiscard]] static Attachment port_of(NodeIndex node) {
    return {0, static_cast<SwitchPort>(node + 1)};
  }
  void set_group(Lid mlid, std::initializer_list<NodeIndex> receivers);
  /// Adds a LID to a node.
  void set_route(Lid lid, NodeIndex node);

 private:
  void publish_switch();
  void publish_checks(NodeIndex node);

  TemporaryFolder root_;
  fabric::SubnetFolder folder_;
  fabric::FabricWriter fabric_;
  subnet::SubnetConfig config_;
  subnet::Switches switches_{config_};
};

/// Removes the folder of a TestSubnet that is never destroyed, when the process ends.
class FolderAtExit {
 public:
  explicit FolderAtExit(const fabric::SubnetFolder& subnet)
      : path_(std::filesystem::path(subnet.path()).parent_path()) {}
  FolderAtExit(const FolderAtExit&) = delete;
  FolderAtExit& operator=(const FolderAtExit&) = delete;
  ~FolderAtExit() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

 private:
  std::filesystem::path path_;
};

}  // namespace softib::test
