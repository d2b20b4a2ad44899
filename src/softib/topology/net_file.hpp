// Net files of ibsim, and the output of ibnetdiscover, which has the same syntax.
//
//   switchguid=0x2c90200000001          GUID of the next switch; those after it count up
//   Switch 8 "S-0002c90200000001"       # "leaf 1" enhanced port 0 lid 4 lmc 0
//   [1]  "host-1"[1]                    # "host 1" lid 5 4xQDR
//   [2]  "host-2"[1] w=2 s=4 e=1        enabled widths, speeds and extended speeds of this port
//
//   Ca 2 "host-1"
//   [1](2c90200000101)  "S-0002c90200000001"[1]
//
// Keywords: Switch, Hca or Ca, Rt; switchguid[s], hcaguid[s] or caguid[s], rtguid[s], each with =
// or +; vendid, devid, sysimgguid; width, speed, extspeed; module, include, do, pdebug. A line that
// begins with # is a comment. A port has an alias by @[PORT] "ALIAS", and "@ALIAS" is a cable to
// it. As with ibsim, both ends of any other cable have to be in the file, and what is not said is
// 4x SDR.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ipoib/result.hpp"
#include "softib/topology/topology.hpp"

namespace softib::topology {

/// Bytes of a file and all that it includes: enough for 1024 switches of 254 ports.
inline constexpr std::size_t kMaxNetBytes = std::size_t{48} << 20;
inline constexpr std::size_t kMaxNetLine = 4096;    ///< bytes of a line
inline constexpr std::size_t kMaxIncludeDepth = 9;  ///< as of ibsim
inline constexpr std::size_t kMaxIncludes = 256;    ///< of a file and those that it includes
inline constexpr std::size_t kMaxRemarks = 100;     ///< the others are counted

/// What a file says, and what of it the topology does not have.
struct NetFile {
  Topology topology;  ///< valid and canonical (check.hpp); GUIDs that the file does not give are 0
  /// "NAME:LINE:COLUMN: what was skipped", at most kMaxRemarks.
  std::vector<std::string> remarks;
  std::size_t more_remarks = 0;  ///< that are not in `remarks`
};

/// A file that another one includes.
struct IncludedFile {
  std::string name;  ///< for messages and for files that it includes
  std::string text;
};
/// Reads the file that the file `includer` calls `path`.
using ReadInclude = std::function<ipoib::Result<IncludedFile>(const std::string& includer,
                                                              const std::string& path)>;

/// Parses the text of a file. The error is EINVAL with "NAME:LINE:COLUMN: reason", or EFBIG, or
/// that of `read_include`.
///
/// Nodes are named by their IDs if these are valid names other than S-, H- or R- with a GUID, else
/// like their descriptions, else like their IDs; a number makes names unique. Routers and unknown
/// nodes, cables to them, ports of HCAs above kMaxHcaPorts, `do`, and lines that mean nothing are
/// skipped with a remark.
[[nodiscard]] ipoib::Result<NetFile> parse_net(std::string_view text, const std::string& name,
                                               const ReadInclude& read_include = {});

}  // namespace softib::topology
