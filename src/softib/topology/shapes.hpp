// Topologies of regular shapes, by their parameters.
//
//   fat-tree:K[,LEVELS]        K-ary fat tree of switches with K ports, K even, of 2 or 3 levels
//                              (default 3): full bisection bandwidth. 2 levels: K leaf switches,
//                              K/2 spines, K*K/2 hosts. 3 levels (Al-Fares, Loukissas and Vahdat,
//                              SIGCOMM 2008): K pods of K/2 leaf switches and K/2 spines, K*K/4
//                              cores, K*K*K/4 hosts.
//   torus:AxB[xC][,HOSTS]      torus of two or three dimensions with HOSTS at each switch (default
//                              1). A dimension of 2 has one cable between its two switches.
//   dragonfly:A,P,H[,GROUPS]   (Kim, Dally, Scott and Abts, ISCA 2008) groups of A switches that
//                              are all connected, P hosts and H cables to other groups at each
//                              switch, one cable between two groups. GROUPS: default, and at most,
//                              A*H + 1.
//   line:N[,HOSTS]             N switches in a row with HOSTS at each (default 1)
//   star:N                     one switch with N hosts
#pragma once

#include <string_view>

#include "ipoib/result.hpp"
#include "softib/topology/topology.hpp"

namespace softib::topology {

/// Whether the text begins with the name of a shape and a colon.
[[nodiscard]] bool is_shape(std::string_view specification);

/// Makes the topology of a specification, in canonical form: 4x QDR, all GUIDs 0, and names such as
/// leaf-1, spine-2, core-3, switch-1-2 and host-17. The error is EINVAL; it states the grammar and
/// the limits of the shape.
[[nodiscard]] ipoib::Result<Topology> make_shape(std::string_view specification);

}  // namespace softib::topology
