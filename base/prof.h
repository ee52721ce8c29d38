#pragma once
#include <stdio.h>
#include <time.h>
static inline void prof_(const char *w){static double lw,lc;struct timespec a,b;clock_gettime(CLOCK_MONOTONIC,&a);clock_gettime(CLOCK_PROCESS_CPUTIME_ID,&b);double W=a.tv_sec+a.tv_nsec*1e-9,C=b.tv_sec+b.tv_nsec*1e-9;if(lw==0){lw=W;}fprintf(stderr,"PROF %-28s wall %7.2f cpu %7.2f  (at %.2f / %.2f)\n",w,W-lw,C-lc,W,C);lw=W;lc=C;}
#define PROF(w) prof_(w)
