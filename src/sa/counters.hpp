// Counters of an SA client.
#pragma once

#include <cstdint>

namespace ipoib::sa {

struct Counters {
  std::uint64_t requests = 0;             ///< requests accepted or refused as overloaded
  std::uint64_t mads_sent = 0;            ///< request MADs sent, with retries
  std::uint64_t retries = 0;              ///< request MADs sent again
  std::uint64_t records = 0;              ///< requests that succeeded
  std::uint64_t refused_by_status = 0;    ///< other requests refused by the SA
  std::uint64_t groups_missing = 0;       ///< joins refused because the group does not exist
  std::uint64_t busy = 0;                 ///< responses with status BUSY
  std::uint64_t redirects = 0;            ///< responses that redirected to another port
  std::uint64_t timeouts = 0;             ///< request MADs without a response in time
  std::uint64_t send_errors = 0;          ///< MADs that the port did not accept
  std::uint64_t malformed_responses = 0;  ///< responses without the requested record
  std::uint64_t unmatched_mads = 0;       ///< MADs that match no request, dropped
  std::uint64_t foreign_responses = 0;    ///< responses of another port than was asked, dropped
  std::uint64_t foreign_reports = 0;      ///< reports of another port than the SA's, dropped
  std::uint64_t reports = 0;              ///< reports of the SA, with repetitions
  std::uint64_t overloaded = 0;           ///< requests refused because too many were waiting
  std::uint64_t without_sm = 0;           ///< requests that failed for lack of a subnet manager

  Counters& operator+=(const Counters& other) {
    requests += other.requests;
    mads_sent += other.mads_sent;
    retries += other.retries;
    records += other.records;
    refused_by_status += other.refused_by_status;
    groups_missing += other.groups_missing;
    busy += other.busy;
    redirects += other.redirects;
    timeouts += other.timeouts;
    send_errors += other.send_errors;
    malformed_responses += other.malformed_responses;
    unmatched_mads += other.unmatched_mads;
    foreign_responses += other.foreign_responses;
    foreign_reports += other.foreign_reports;
    reports += other.reports;
    overloaded += other.overloaded;
    without_sm += other.without_sm;
    return *this;
  }
};

}  // namespace ipoib::sa
