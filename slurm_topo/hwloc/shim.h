/* What differs between hwloc 2.4 .. 3.x, or is awkward from Python (nested unions), behind one set of names. */
#ifndef ST_HWLOC_SHIM_H
#define ST_HWLOC_SHIM_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <hwloc.h>

/* Roles of an OS device as a set of bits: one hwloc 3 device may have several. */
enum {
  ST_OSDEV_BLOCK = 1,
  ST_OSDEV_GPU = 2,
  ST_OSDEV_NETWORK = 4,
  ST_OSDEV_OPENFABRICS = 8,
  ST_OSDEV_DMA = 16,
  ST_OSDEV_COPROC = 32,
  ST_OSDEV_MEMORY = 64
};

typedef struct st_hwloc_pci {
  unsigned domain, bus, dev, func;
  unsigned class_id, vendor, device, subvendor, subdevice, revision;
  double linkspeed; /* GB/s, 0 where unknown */
} st_hwloc_pci;

typedef struct st_hwloc_bridge {
  int host;        /* 1: host bridge (no PCI device upstream) */
  int pci_below;   /* 1: the three numbers below are known */
  unsigned domain, secondary_bus, subordinate_bus;
} st_hwloc_bridge;

static inline unsigned st_hwloc_osdev_roles(hwloc_obj_t obj)
{
  unsigned roles = 0;
#if HWLOC_API_VERSION >= 0x00030000
  unsigned long types = obj->attr->osdev.types;
  if (types & HWLOC_OBJ_OSDEV_STORAGE) roles |= ST_OSDEV_BLOCK;
  if (types & HWLOC_OBJ_OSDEV_GPU) roles |= ST_OSDEV_GPU;
  if (types & HWLOC_OBJ_OSDEV_NETWORK) roles |= ST_OSDEV_NETWORK;
  if (types & HWLOC_OBJ_OSDEV_OPENFABRICS) roles |= ST_OSDEV_OPENFABRICS;
  if (types & HWLOC_OBJ_OSDEV_DMA) roles |= ST_OSDEV_DMA;
  if (types & HWLOC_OBJ_OSDEV_COPROC) roles |= ST_OSDEV_COPROC;
  if (types & HWLOC_OBJ_OSDEV_MEMORY) roles |= ST_OSDEV_MEMORY;
#else
  switch (obj->attr->osdev.type) {
  case HWLOC_OBJ_OSDEV_BLOCK: roles = ST_OSDEV_BLOCK; break;
  case HWLOC_OBJ_OSDEV_GPU: roles = ST_OSDEV_GPU; break;
  case HWLOC_OBJ_OSDEV_NETWORK: roles = ST_OSDEV_NETWORK; break;
  case HWLOC_OBJ_OSDEV_OPENFABRICS: roles = ST_OSDEV_OPENFABRICS; break;
  case HWLOC_OBJ_OSDEV_DMA: roles = ST_OSDEV_DMA; break;
  case HWLOC_OBJ_OSDEV_COPROC: roles = ST_OSDEV_COPROC; break;
  default: break;
  }
#endif
  return roles;
}

static inline void st_hwloc_fill_pci(st_hwloc_pci *out, const struct hwloc_pcidev_attr_s *in)
{
  out->domain = in->domain;
  out->bus = in->bus;
  out->dev = in->dev;
  out->func = in->func;
  out->class_id = in->class_id;
  out->vendor = in->vendor_id;
  out->device = in->device_id;
  out->subvendor = in->subvendor_id;
  out->subdevice = in->subdevice_id;
  out->revision = in->revision;
  out->linkspeed = in->linkspeed;
}

/* 1 and *out filled where the object is a PCI device or a bridge below one, else 0. */
static inline int st_hwloc_pci_of(hwloc_obj_t obj, st_hwloc_pci *out)
{
  int known = 0;
  memset(out, 0, sizeof(*out));
  if (obj->attr && obj->type == HWLOC_OBJ_PCI_DEVICE) {
    st_hwloc_fill_pci(out, &obj->attr->pcidev);
    known = 1;
  } else if (obj->attr && obj->type == HWLOC_OBJ_BRIDGE &&
             obj->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI) {
    st_hwloc_fill_pci(out, &obj->attr->bridge.upstream.pci);
    known = 1;
  }
  return known;
}

static inline int st_hwloc_bridge_of(hwloc_obj_t obj, st_hwloc_bridge *out)
{
  memset(out, 0, sizeof(*out));
  if (!obj->attr || obj->type != HWLOC_OBJ_BRIDGE) return 0;
  out->host = obj->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_HOST;
  out->pci_below = obj->attr->bridge.downstream_type == HWLOC_OBJ_BRIDGE_PCI;
  if (out->pci_below) {
    out->domain = obj->attr->bridge.downstream.pci.domain;
    out->secondary_bus = obj->attr->bridge.downstream.pci.secondary_bus;
    out->subordinate_bus = obj->attr->bridge.downstream.pci.subordinate_bus;
  }
  return 1;
}

static inline uint64_t st_hwloc_cache_size(hwloc_obj_t obj)
{
  if (!obj->attr) return 0;
  return hwloc_obj_type_is_cache(obj->type) || obj->type == HWLOC_OBJ_MEMCACHE ? obj->attr->cache.size : 0;
}

static inline uint64_t st_hwloc_local_memory(hwloc_obj_t obj)
{
  return obj->attr && obj->type == HWLOC_OBJ_NUMANODE ? obj->attr->numanode.local_memory : 0;
}

static inline unsigned st_hwloc_info_count(hwloc_obj_t obj)
{
#if HWLOC_API_VERSION >= 0x00030000
  return obj->infos.count;
#else
  return obj->infos_count;
#endif
}

static inline const char *st_hwloc_info(hwloc_obj_t obj, unsigned i, int value)
{
#if HWLOC_API_VERSION >= 0x00030000
  struct hwloc_info_s *info = &obj->infos.array[i];
#else
  struct hwloc_info_s *info = &obj->infos[i];
#endif
  return value ? info->value : info->name;
}

/* Pairs of one kind of CPU; *pairs may be NULL to ask for the count. */
static inline int st_hwloc_cpukind(hwloc_topology_t topology, unsigned kind, hwloc_bitmap_t cpuset,
                                   int *efficiency, unsigned *count, struct hwloc_info_s **pairs)
{
#if HWLOC_API_VERSION >= 0x00030000
  struct hwloc_infos_s *infos = NULL;
  int rv = hwloc_cpukinds_get_info(topology, kind, cpuset, efficiency, &infos, 0);
  *count = rv < 0 || !infos ? 0 : infos->count;
  *pairs = rv < 0 || !infos ? NULL : infos->array;
  return rv;
#else
  return hwloc_cpukinds_get_info(topology, kind, cpuset, efficiency, count, pairs, 0);
#endif
}

/* Locations of a memory attribute are cpusets here: an object stands for its cpuset. */
static inline hwloc_const_cpuset_t st_hwloc_location_cpuset(const struct hwloc_location *location)
{
  if (location->type == HWLOC_LOCATION_TYPE_CPUSET) return location->location.cpuset;
  return location->location.object ? location->location.object->cpuset : NULL;
}

/* All memory, caches and groups as usual; of the I/O tree what matters and the bridges on the way to it. */
static inline int st_hwloc_configure(hwloc_topology_t topology)
{
  if (hwloc_topology_set_flags(topology, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED) < 0) return -1;
  if (hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_IMPORTANT) < 0) return -1;
  if (hwloc_topology_set_type_filter(topology, HWLOC_OBJ_OS_DEVICE, HWLOC_TYPE_FILTER_KEEP_ALL) < 0) return -1;
  if (hwloc_topology_set_type_filter(topology, HWLOC_OBJ_MEMCACHE, HWLOC_TYPE_FILTER_KEEP_ALL) < 0) return -1;
  return hwloc_topology_set_type_filter(topology, HWLOC_OBJ_MISC, HWLOC_TYPE_FILTER_KEEP_ALL);
}

#endif
