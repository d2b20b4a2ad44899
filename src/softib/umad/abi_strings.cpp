// Names of classes, methods, attributes and status values: those of the IBA specification, as
// libibumad abbreviates them.

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "softib/umad/abi.hpp"

namespace {

using namespace ipoib::wire::mgmt_class;

constexpr const char* kUnknown = "<unknown>";
constexpr std::uint8_t kCommunication = 0x07;

struct Name {
  std::uint16_t value;
  const char* text;
};

constexpr std::array kClasses{
    Name{0x01, "Subn"},
    Name{0x03, "SubnAdm"},
    Name{0x04, "Perf"},
    Name{0x05, "BM"},
    Name{0x06, "DevMgt"},
    Name{0x07, "ComMgt"},
    Name{0x08, "SNMP"},
    Name{0x10, "DevAdm"},
    Name{0x11, "BootMgt"},
    Name{0x12, "BIS"},
    Name{0x21, "CongestionManagment"},  // sic, in libibumad
    Name{0x81, "Subn"},
};

constexpr std::array kMethods{
    Name{0x01, "Get"},     Name{0x02, "Set"},        Name{0x03, "Send"},
    Name{0x05, "Trap"},    Name{0x06, "Report"},     Name{0x07, "TrapRepress"},
    Name{0x81, "GetResp"}, Name{0x86, "ReportResp"},
};

constexpr std::array kSaMethods{
    Name{0x12, "GetTable"},   Name{0x13, "GetTraceTable"}, Name{0x14, "GetMulti"},
    Name{0x15, "Delete"},     Name{0x92, "GetTableResp"},  Name{0x94, "GetMultiResp"},
    Name{0x95, "DeleteResp"},
};

constexpr std::array kAttributes{
    Name{0x0001, "Class Port Info"},
    Name{0x0002, "Notice"},
    Name{0x0003, "Inform Info"},
};

constexpr std::array kSubnAttributes{
    Name{0x0010, "NodeDescription"},
    Name{0x0011, "NodeInfo"},
    Name{0x0012, "SwitchInfo"},
    Name{0x0014, "GUIDInfo"},
    Name{0x0015, "PortInfo"},
    Name{0x0016, "P_KeyTable"},
    Name{0x0017, "SLtoVLMappingTable"},
    Name{0x0018, "VLArbitrationTable"},
    Name{0x0019, "LinearForwardingTable"},
    Name{0x001a, "RandomForwardingTable"},
    Name{0x001b, "MulticastForwardingTable"},
    Name{0x001c, "LinkSpeedWidthPairsTable"},
    Name{0x001d, "VendorSpecificMadsTable"},
    Name{0x001e, "HierarchyInfo"},
    Name{0x0020, "SMInfo"},
    Name{0x0030, "VendorDiag"},
    Name{0x0031, "LedInfo"},
    Name{0x0032, "CableInfo"},
    Name{0x0033, "PortInfoExtended"},
};

constexpr std::array kSaAttributes{
    Name{0x0011, "NodeRecord"},
    Name{0x0012, "PortInfoRecord"},
    Name{0x0013, "SLtoVLMappingTableRecord"},
    Name{0x0014, "SwitchInfoRecord"},
    Name{0x0015, "LinearForwardingTableRecord"},
    Name{0x0016, "RandomForwardingTableRecord"},
    Name{0x0017, "MulticastForwardingTableRecord"},
    Name{0x0018, "SMInfoRecord"},
    Name{0x0019, "LinkSpeedWidthPairsTableRecord"},
    Name{0x0020, "LinkRecord"},
    Name{0x0030, "GuidInfoRecord"},
    Name{0x0031, "ServiceRecord"},
    Name{0x0033, "P_KeyTableRecord"},
    Name{0x0035, "PathRecord"},
    Name{0x0036, "VLArbitrationTableRecord"},
    Name{0x0038, "MCMemberRecord"},
    Name{0x0039, "TraceRecord"},
    Name{0x003a, "MultiPathRecord"},
    Name{0x003b, "ServiceAssociationRecord"},
    Name{0x003c, "HierarchyInfoRecord"},
    Name{0x003d, "CableInfoRecord"},
    Name{0x003e, "PortInfoExtendedRecord"},
    Name{0x00f3, "InformInfoRecord"},
};

constexpr std::array kCmAttributes{
    Name{0x0010, "ConnectRequest"},
    Name{0x0011, "MsgRcptAck"},
    Name{0x0012, "ConnectReject"},
    Name{0x0013, "ConnectReply"},
    Name{0x0014, "ReadyToUse"},
    Name{0x0015, "DisconnectRequest"},
    Name{0x0016, "DisconnectReply"},
    Name{0x0017, "ServiceIDResReq"},
    Name{0x0018, "ServiceIDResReqResp"},
    Name{0x0019, "LoadAlternatePath"},
    Name{0x001a, "AlternatePathResponse"},
    Name{0x001b, "SuggestAlternatePath"},
    Name{0x001c, "SuggestPathResponse"},
};

/// The class bits of an SA status (IBA 15.2.2).
constexpr std::array kSaStatuses{
    Name{0x00, "Success"},
    Name{0x01, "No Resources"},
    Name{0x02, "Request Invalid"},
    Name{0x03, "No Records"},
    Name{0x04, "Too Many Records"},
    Name{0x05, "Invalid GID"},
    Name{0x06, "Insufficient Components"},
    Name{0x07, "Request Denied"},
    Name{0x08, "Priority Suggested"},
};

const char* find(std::span<const Name> names, std::uint16_t value) {
  const auto found = std::find_if(names.begin(), names.end(),
                                  [&](const Name& name) { return name.value == value; });
  return found == names.end() ? nullptr : found->text;
}

const char* attribute_of_class(std::uint8_t management_class, std::uint16_t attribute) {
  switch (management_class) {
    case kSubnLid:
    case kSubnDirected:
      return find(kSubnAttributes, attribute);
    case kSubnAdm:
      return find(kSaAttributes, attribute);
    case kCommunication:
      return find(kCmAttributes, attribute);
    default:
      return nullptr;
  }
}

const char* or_unknown(const char* text) { return text != nullptr ? text : kUnknown; }

}  // namespace

extern "C" {

const char* umad_class_str(uint8_t mgmt_class) {
  if (const char* name = find(kClasses, mgmt_class)) return name;
  if (mgmt_class >= UMAD_CLASS_VENDOR_RANGE1_START && mgmt_class <= UMAD_CLASS_VENDOR_RANGE1_END) {
    return "Vendor";
  }
  if (softib::umad::has_oui(mgmt_class)) return "Vendor";
  if (mgmt_class >= UMAD_CLASS_APPLICATION_START && mgmt_class <= UMAD_CLASS_APPLICATION_END) {
    return "Application";
  }
  return kUnknown;
}

const char* umad_method_str(uint8_t mgmt_class, uint8_t method) {
  const char* name = find(kMethods, method);
  if (name == nullptr && mgmt_class == kSubnAdm) name = find(kSaMethods, method);
  return or_unknown(name);
}

const char* umad_attribute_str(uint8_t mgmt_class, __be16 attr_id) {
  const std::uint16_t attribute = softib::from_network(attr_id);
  const char* name = find(kAttributes, attribute);
  return or_unknown(name != nullptr ? name : attribute_of_class(mgmt_class, attribute));
}

/// The text of a common status (IBA table 13-5): bit 0, bit 1, and a code in bits 2 to 4.
const char* umad_common_mad_status_str(__be16 status) {
  const std::uint16_t bits = softib::from_network(status);
  if ((bits & 0x01) != 0) return "Busy";
  if ((bits & 0x02) != 0) return "Redirection required";
  switch (bits >> 2 & 0x07) {
    case 1:
      return "Bad Version";
    case 2:
      return "Method not supported";
    case 3:
      return "Method/Attribute combo not supported";
    case 7:
      return "Invalid attribute/modifier field";
    default:
      return "Success";
  }
}

const char* umad_sa_mad_status_str(__be16 status) {
  const char* name =
      find(kSaStatuses, static_cast<std::uint16_t>(softib::from_network(status) >> 8));
  return name != nullptr ? name : "Undefined Error";
}

}  // extern "C"
