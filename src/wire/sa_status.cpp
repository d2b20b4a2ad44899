// Names and causes of the codes of IBA 13.4.7 (common) and 15.2.2 (SA). Causes of failed joins and
// path requests, the most frequent first.
#include "wire/sa_status.hpp"

namespace ipoib::wire {

std::string_view name(SaStatus status) {
  switch (status) {
    case SaStatus::ok:
      return "ok";
    case SaStatus::busy:
      return "busy";
    case SaStatus::redirect:
      return "redirect";
    case SaStatus::unsupported_version:
      return "class version not supported";
    case SaStatus::unsupported_method:
      return "method not supported";
    case SaStatus::unsupported_method_attribute:
      return "method not supported for this attribute";
    case SaStatus::invalid_field:
      return "invalid attribute or modifier";
    case SaStatus::no_resources:
      return "no resources";
    case SaStatus::request_invalid:
      return "request invalid";
    case SaStatus::no_records:
      return "no records";
    case SaStatus::too_many_records:
      return "too many records";
    case SaStatus::invalid_gid:
      return "invalid GID";
    case SaStatus::insufficient_components:
      return "insufficient components";
    case SaStatus::request_denied:
      return "request denied";
  }
  return "unknown status";
}

std::string_view likely_cause(SaStatus status) {
  switch (status) {
    case SaStatus::ok:
      return "";
    case SaStatus::busy:
      return "the subnet administrator is overloaded";
    case SaStatus::redirect:
      return "the subnet administrator redirects to an unusable address, or too often";
    case SaStatus::unsupported_version:
    case SaStatus::unsupported_method:
    case SaStatus::unsupported_method_attribute:
    case SaStatus::invalid_field:
      return "this subnet administrator does not implement the request";
    case SaStatus::no_resources:
      return "the subnet has no multicast LID left";
    case SaStatus::request_invalid:
      return "the port is not in this partition or group, the group does not exist, or the "
             "port does not support its MTU or rate";
    case SaStatus::no_records:
      return "no such port on the subnet, or it shares no partition with this one";
    case SaStatus::too_many_records:
      return "the request matches more than one record";
    case SaStatus::invalid_gid:
      return "a GID's prefix is not that of the subnet";
    case SaStatus::insufficient_components:
      return "the group does not exist, and the request does not say how to create it";
    case SaStatus::request_denied:
      return "the subnet administrator does not trust this port";
  }
  return "";
}

}  // namespace ipoib::wire
