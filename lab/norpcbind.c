/* Preloaded into ganesha.nfsd 4.3, which refuses to serve NFSv3 when it cannot register with rpcbind.
   Registration becomes a no-op that succeeds: several servers run side by side, and rpcbind need not run.
   Nothing else of the server is touched. */
#include <stdbool.h>

bool svc_reg(void *transport, unsigned program, unsigned version, void *dispatch, const void *netconfig) { return true; }
void svc_unreg(unsigned program, unsigned version) {}
bool rpcb_set(unsigned program, unsigned version, const void *netconfig, const void *address) { return true; }
bool rpcb_unset(unsigned program, unsigned version, const void *netconfig) { return true; }
