/* Ask the processor to load memory that will be read soon. A hint only: it never fails, and may do nothing. */
#ifndef BT_PREFETCH_H
#define BT_PREFETCH_H

#if defined(__GNUC__) || defined(__clang__)
#define bt_prefetch(address) __builtin_prefetch(address)
#else
#define bt_prefetch(address) ((void) (address))
#endif

#endif
